#pragma once

#include <Eigen/Core>

#include "sim/kernels/aligned_rows.h"
#include "traces/unit.h"

namespace kvsim {

/// A matrix that reuses its memory when it is resized, as for each wider block of steps.
class BlockMatrix : public Eigen::Map<Matrix> {
 public:
  BlockMatrix() : Map(nullptr, 0, 0) {}
  BlockMatrix(BlockMatrix&&) = default;
  BlockMatrix& operator=(BlockMatrix&&) = delete;
  using Map::operator=;

  /// Discards the contents.
  void resize(Eigen::Index rows, Eigen::Index cols) {
    constexpr Eigen::Index kLineFloats = kCacheLine / sizeof(float);
    values_.resize(static_cast<std::size_t>((rows * cols + kLineFloats - 1) / kLineFloats),
                   kLineFloats);
    new (static_cast<Map*>(this)) Map(values_.row(0), rows, cols);
  }

 private:
  AlignedRows values_;
};

}  // namespace kvsim
