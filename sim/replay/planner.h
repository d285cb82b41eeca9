#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/attention/future_attention.h"

namespace kvsim {

/// Per token, the step after which it leaves; n: never.
using Schedule = std::vector<std::int32_t>;

/// A planner's result for one budget.
struct Plan {
  Schedule schedule;
  /// [n], in attention summed over steps: an upper bound of what one more slot gains if it exists
  /// from this step to the next only. May be empty.
  std::vector<double> slot_price = {};
  std::optional<double> recall_bound = {};  ///< proven upper bound of every policy's mean recall
};

/// An oracle: turns a unit's attention into schedules. A schedule keeps at most the budget after
/// every step from the first eviction on, and a replay follows it.
class Planner {
 public:
  virtual ~Planner() = default;

  /// One plan per budget. Budgets are in tokens, at least 1, in any order.
  virtual std::vector<Plan> plan(const FutureAttention& attention,
                                 std::span<const int> budgets) const = 0;
};

}  // namespace kvsim
