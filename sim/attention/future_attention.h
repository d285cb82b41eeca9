#pragma once

#include <span>
#include <vector>

#include "sim/attention/attention.h"
#include "sim/attention/mode.h"

namespace kvsim {

/// The full attention matrix of a unit of n tokens, averaged over its query heads. Only oracles may
/// see it. Takes 2 n (n + 1) bytes.
class FutureAttention {
 public:
  FutureAttention(const Unit& unit, Mode mode, const Backend& backend, int eviction_interval = 1);

  /// From given attention: rows[t] is a[t,0] .. a[t,t].
  explicit FutureAttention(const std::vector<std::vector<float>>& rows, int first_measured = 0,
                           int eviction_interval = 1);

  int num_tokens() const { return num_tokens_; }

  /// The first measured step: 0 in stream mode, the prompt length in prefill mode.
  int first_measured() const { return first_measured_; }

  /// The first step that may evict: 0 in stream mode; in prefill mode the last step of the prompt,
  /// which evicts down to the budget.
  int first_eviction() const { return first_measured_ == 0 ? 0 : first_measured_ - 1; }

  /// The protocol's eviction interval, see most_held().
  int eviction_interval() const { return eviction_interval_; }

  /// Per step, the evictions of a cache of `budget` tokens that drops one token at a time: 0 before
  /// first_eviction() and between the evictions of an interval.
  std::vector<int> num_evictions(int budget) const;

  /// FutureSums::remaining if a device computed the attention, else empty.
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
  int eviction_interval_;
  std::vector<float> attention_;  // rows, concatenated
  std::vector<float> remaining_;
};

}  // namespace kvsim
