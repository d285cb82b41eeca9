#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

#include "sim/kernels/aligned_vector.h"

namespace kvsim {

/// Uninitialised rows of floats, each aligned to a cache line. resize() discards the contents.
class AlignedRows {
 public:
  AlignedRows() = default;
  AlignedRows(std::size_t rows, std::size_t stride) { resize(rows, stride); }

  /// `stride`: floats from one row to the next, a multiple of 16.
  void resize(std::size_t rows, std::size_t stride) {
    stride_ = stride;
    if (rows * stride <= capacity_) return;
    // Blocks of steps widen gradually; the operating system maps unused memory lazily.
    capacity_ = std::max(rows * stride, 2 * capacity_);
    data_.reset(static_cast<float*>(std::aligned_alloc(kCacheLine, capacity_ * sizeof(float))));
    if (!data_) throw std::bad_alloc();
  }

  float* row(std::size_t index) { return data_.get() + index * stride_; }
  const float* row(std::size_t index) const { return data_.get() + index * stride_; }

 private:
  struct Free {
    void operator()(float* data) const { std::free(data); }
  };

  std::unique_ptr<float, Free> data_;
  std::size_t capacity_ = 0;
  std::size_t stride_ = 0;
};

}  // namespace kvsim
