#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/core/future_attention.h"

namespace kvsim {

/// Per token, the step after which it leaves; n: never.
using Schedule = std::vector<std::int32_t>;

/// What a planner found for one budget.
struct Plan {
  Schedule schedule;
  /// Per step, the rent of a slot until the next, in attention summed over steps: what one more
  /// slot after this step alone can gain at most. May be empty.
  std::vector<double> slot_price = {};
  std::optional<double> recall_bound = {};  ///< of every policy's mean recall, if one is proven
};

/// An oracle: turns a unit's attention into schedules. A schedule keeps at most the budget after
/// every step from the first eviction on, and a replay follows it.
class Planner {
 public:
  virtual ~Planner() = default;

  /// One plan per budget; budgets are in tokens and at least 1, in any order.
  virtual std::vector<Plan> plan(const FutureAttention& attention,
                                 std::span<const int> budgets) const = 0;
};

}  // namespace kvsim
