#pragma once

#include <Eigen/Core>

#include "sim/core/aligned_rows.h"
#include "traces/unit.h"

namespace kvsim {

/// A matrix that keeps its memory from one block of steps to the next, wider one.
class BlockMatrix : public Eigen::Map<Matrix> {
 public:
  BlockMatrix() : Map(nullptr, 0, 0) {}
  BlockMatrix(BlockMatrix&&) = default;
  BlockMatrix& operator=(BlockMatrix&&) = delete;
  using Map::operator=;

  /// Keeps nothing of what was there.
  void resize(Eigen::Index rows, Eigen::Index cols) {
    constexpr Eigen::Index kLine = 16;
    values_.resize(static_cast<std::size_t>((rows * cols + kLine - 1) / kLine), kLine);
    new (static_cast<Map*>(this)) Map(values_.row(0), rows, cols);
  }

 private:
  AlignedRows values_;
};

}  // namespace kvsim
