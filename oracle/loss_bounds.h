#pragma once

#include <limits>
#include <vector>

#include "oracle/attention_columns.h"
#include "oracle/concave.h"

namespace kvsim {

/// Lower bounds of total_loss() for every token that is kept. As h is concave, step s loses at
/// least a[s,j] h'(kept[s]) without token j.
///
/// These products are summed over blocks of steps now and then, with the slopes h' of that time.
/// Times the least share that a slope of the block has of what it was, a sum stays a bound. So the
/// bounds of a step take a product per block of steps, and one per step of the block that has
/// begun.
class LossBounds {
 public:
  /// The slopes are of `kept`, per step the attention to the kept tokens, and of `prepared`,
  /// prepare() of that. All have to outlive the object.
  LossBounds(Concave h, const AttentionColumns& columns, const std::vector<double>& kept,
             const std::vector<double>& prepared);

  void add(int token);
  void remove(int token);

  /// Finds the bounds of what each token's removal loses after `step`.
  void find(int step);

  /// Of a token: not above what total_loss() returns for the steps after the last find(), or what
  /// raise() was called with.
  double of(int token) const { return bounds_[slot_of_[token]]; }

  /// A loss that was computed for the present step. It stays a bound while tokens only leave.
  void raise(int token, double loss) { bounds_[slot_of_[token]] = loss; }

  /// The token with the lowest bound.
  int lowest() const;

 private:
  static constexpr int kNobody = -1;
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  void find_slopes(int step);
  void sum_blocks(std::size_t slot, int first_block);

  Concave h_;
  const AttentionColumns& columns_;
  const std::vector<double>& kept_;
  const std::vector<double>& prepared_;
  int num_blocks_;
  int finds_ = 0;                      // with the present sums
  int last_step_ = -1;                 // of find()
  std::vector<float> slopes_;          // per step, now
  std::vector<float> slopes_summed_;   // per step, of the sums
  std::vector<float> inverse_slopes_;  // of those
  std::vector<float> shares_;          // per block: the least of now to those
  std::vector<int> tokens_;            // per slot; kNobody: it is free
  std::vector<std::size_t> slot_of_;   // per token that is kept
  std::vector<std::size_t> free_;      // slots
  std::vector<std::size_t> unsummed_;  // slots
  std::vector<float> sums_;            // [block, slot]
  std::vector<float> found_;           // per slot
  std::vector<double> bounds_;         // per slot
};

}  // namespace kvsim
