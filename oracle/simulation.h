#pragma once

#include <vector>

#include "sim/replay/planner.h"

namespace kvsim {

/// Chooses the tokens that a simulated cache evicts. May use the attention of later steps.
class EvictionRule {
 public:
  virtual ~EvictionRule() = default;

  /// Called once per step, after token `step` has arrived and before any eviction.
  virtual void arrive(int step) = 0;

  /// The loss if `token` is evicted after step `step`. The token with the least loss is evicted,
  /// the lower text position first among equals.
  virtual double loss(int token, int step) = 0;

  /// The same of tokens first .. first + count - 1, which leave together.
  virtual double loss_of_page(int first, int count, int step);

  /// Called when `token` has been evicted.
  virtual void leave(int token) { static_cast<void>(token); }
};

/// The schedule of a cache that evicts one token or page at a time until the budget holds, at the
/// steps at which the protocol evicts.
Schedule simulate(const EvictionSteps& steps, int budget, EvictionRule& rule);

}  // namespace kvsim
