#pragma once

#include <vector>

namespace kvsim {

/// At which steps of a text of n tokens caches evict, and which steps are measured: what a protocol
/// comes to on one text.
class EvictionSteps {
 public:
  /// `first_measured` is 0 in stream mode, the prompt length in prefill mode.
  explicit EvictionSteps(int num_tokens, int first_measured = 0, int eviction_interval = 1)
      : num_tokens_(num_tokens),
        first_measured_(first_measured),
        eviction_interval_(eviction_interval) {}

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

 private:
  int num_tokens_;
  int first_measured_;
  int eviction_interval_;
};

}  // namespace kvsim
