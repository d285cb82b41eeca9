#pragma once

#include <span>
#include <vector>

#include "sim/core/attention.h"
#include "sim/core/replay.h"

namespace kvsim {

/// The whole full attention of a unit, mean over its query heads: what only an oracle may see.
/// Takes 2 n (n + 1) bytes.
class FutureAttention {
 public:
  FutureAttention(const Unit& unit, Mode mode, const Backend& backend);

  /// Attention from elsewhere: row t holds a[t,0] .. a[t,t].
  explicit FutureAttention(const std::vector<std::vector<float>>& rows, int first_measured = 0);

  int num_tokens() const { return num_tokens_; }

  /// The steps whose attention counts: from 0 on in stream mode, from the prompt's length on in
  /// prefill mode.
  int first_measured() const { return first_measured_; }

  /// The first step that may evict: 0 in stream mode; in prefill mode the prompt's last, after
  /// which as many tokens leave as are too many. Every later step brings one token.
  int first_eviction() const { return first_measured_ == 0 ? 0 : first_measured_ - 1; }

  /// What of it is still to come at each step, if a device has found that out with it: see
  /// FutureSums. Else empty.
  std::span<const float> remaining() const { return remaining_; }

  /// a[t,j] for j = 0 .. t.
  std::span<const float> row(int step) const {
    return {attention_.data() + offset(step), static_cast<std::size_t>(step) + 1};
  }

 private:
  static std::size_t offset(int step) {
    return static_cast<std::size_t>(step) * (static_cast<std::size_t>(step) + 1) / 2;
  }

  int num_tokens_;
  int first_measured_;
  std::vector<float> attention_;  // rows one behind the other
  std::vector<float> remaining_;
};

}  // namespace kvsim
