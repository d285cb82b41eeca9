#pragma once

#include <algorithm>
#include <vector>

#include "sim/kernels/leave_one_out_kernels.h"
#include "traces/unit.h"

namespace kvsim {

/// The tokens of a cache and those that arrive next, each in a slot, with their values in double
/// precision.
class HeldTokens {
 public:
  /// `value` is [tokens, value_dim], and has to outlive the object.
  HeldTokens(const Matrix& value, std::size_t capacity)
      : value_(value),
        capacity_(padded_to_doubles(capacity)),
        stride_(padded_to_doubles(static_cast<std::size_t>(value.cols()))),
        values_(capacity_ * stride_, 0) {}

  std::size_t count() const { return token_.size(); }
  std::size_t capacity() const { return capacity_; }
  std::size_t stride() const { return stride_; }  ///< from one value to the next
  int token(std::size_t slot) const { return token_[slot]; }
  const double* value(std::size_t slot) const { return values_.data() + slot * stride_; }
  DoubleRows values() const { return {values_.data(), count(), stride_}; }

  void add(int token) {
    const auto value = value_.row(token);
    std::copy(value.begin(), value.end(), values_.begin() + offset(count()));
    token_.push_back(token);
  }

  /// The token of the last slot moves to `slot`.
  void remove(std::size_t slot) {
    const auto last = values_.begin() + offset(count() - 1);
    std::copy_n(last, stride_, values_.begin() + offset(slot));
    token_[slot] = token_.back();
    token_.pop_back();
  }

 private:
  std::ptrdiff_t offset(std::size_t slot) const {
    return static_cast<std::ptrdiff_t>(slot * stride_);
  }

  const Matrix& value_;
  std::size_t capacity_;
  std::size_t stride_;
  std::vector<int> token_;
  std::vector<double> values_;  // [capacity, stride]
};

}  // namespace kvsim
