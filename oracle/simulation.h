#pragma once

#include <vector>

#include "sim/core/planner.h"

namespace kvsim {

/// Chooses what leaves a simulated cache, with the future in view.
class EvictionRule {
 public:
  virtual ~EvictionRule() = default;

  /// Step `step` is over, which brought token `step`.
  virtual void arrive(int step) = 0;

  /// How much is lost if `token` leaves after step `step`: the token with the least leaves, the
  /// lower text position first among equals.
  virtual double loss(int token, int step) = 0;

  virtual void leave(int token) { static_cast<void>(token); }
};

/// The schedule of a cache that lets one token go at a time until the budget holds.
Schedule simulate(const FutureAttention& attention, int budget, EvictionRule& rule);

}  // namespace kvsim
