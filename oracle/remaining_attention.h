#pragma once

#include <vector>

#include "sim/attention/future_attention.h"

namespace kvsim {

/// L(j,t): the attention to token j at the measured steps after t, which never increases with t.
/// Takes 2 n (n + 1) bytes.
class RemainingAttention {
 public:
  explicit RemainingAttention(const FutureAttention& attention);

  /// L(j,t) for j = 0 .. t.
  const float* row(int step) const { return sums_.data() + offset(step); }

 private:
  static std::size_t offset(int step) {
    return static_cast<std::size_t>(step) * (static_cast<std::size_t>(step) + 1) / 2;
  }

  std::vector<float> sums_;  // row after row
};

}  // namespace kvsim
