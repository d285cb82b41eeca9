#pragma once

#include <vector>

#include "sim/protocol/protocol.h"

namespace kvsim {

/// At which steps of a text of n tokens caches evict: what a protocol comes to on one text.
class EvictionSteps {
 public:
  explicit EvictionSteps(int num_tokens) : EvictionSteps(num_tokens, 0, {}) {}
  EvictionSteps(int num_tokens, int prompt_length, const Protocol& protocol)
      : num_tokens_(num_tokens),
        first_measured_(protocol.first_measured(prompt_length)),
        protocol_(protocol) {}

  int num_tokens() const { return num_tokens_; }
  const Protocol& protocol() const { return protocol_; }

  /// The first measured step: 0 in stream mode, the prompt length in prefill mode.
  int first_measured() const { return first_measured_; }

  /// The first step that may evict: 0 in stream mode; in prefill mode the last step of the prompt,
  /// which evicts down to the budget.
  int first_eviction() const { return first_measured_ == 0 ? 0 : first_measured_ - 1; }

  bool is_prompt_end(int step) const { return step + 1 == first_measured_; }

  /// The most tokens that a cache may hold after `step` without evicting, see
  /// Protocol::most_held(): at the end of a prompt its budget.
  int most_held(int budget, int step) const {
    return is_prompt_end(step) ? budget : protocol_.most_held(budget);
  }

  /// The most older tokens that a measured step may attend to: as many as a cache that evicts may
  /// hold before it.
  int most_attended(int budget, int step) const;

  /// Per step, the evictions of a cache of `budget` tokens that drops one token or page at a time:
  /// 0 before first_eviction() and between the evictions of an interval.
  std::vector<int> num_evictions(int budget) const;

 private:
  int num_tokens_;
  int first_measured_;
  Protocol protocol_;
};

}  // namespace kvsim
