#pragma once

#include "sim/kernels/attention_kernels.h"
#include "traces/unit.h"

namespace kvsim {

/// The differences o - o' of one cache's outputs during a block of steps. They are kept as vectors,
/// for measures that need their direction in addition to their norm, and only for units that weigh
/// them (Unit::weighs_outputs()); for others every member does nothing.
class OutputDeltas {
 public:
  explicit OutputDeltas(const Unit& unit);

  /// Sets all differences to 0.
  void reset();

  /// Sets the difference, [value_dim], of query head `head` at row `row` of the block.
  void set(int head, int row, const Eigen::VectorXd& difference);

  /// Sets the difference to 0: nothing is missing, or its error is not taken.
  void clear(int head, int row);

  bool is_kept() const { return rows_.size() > 0; }

  /// [heads * value_dim, kBlockSteps], one head after the other.
  const Matrix& rows() const { return rows_; }

  /// The rows of a head from dimension `first_dim` on; null if they are not kept.
  float* rows_of(int head, int first_dim);

 private:
  int value_dim_;
  Matrix rows_;
};

}  // namespace kvsim
