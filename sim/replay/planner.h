#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/replay/future.h"

namespace kvsim {

/// Per token, the step after which it leaves; n: never.
using Schedule = std::vector<std::int32_t>;

/// A planner's result for one unit and budget.
struct Plan {
  Schedule schedule;
  /// [n], in loss summed over steps: an upper bound of what one more slot gains if it exists from
  /// this step to the next only. May be empty.
  std::vector<double> slot_price = {};
  std::optional<Proof> proof = {};
};

/// An oracle: turns the futures of a layer's units into schedules. A schedule keeps at most the
/// budget after every step from the first eviction on, and a replay follows it.
class Planner {
 public:
  virtual ~Planner() = default;

  /// Plans [unit][budget] for units of one layer, ordered by KV head. `budgets` [unit][budget] are
  /// in tokens, at least 1, in any order, and as many for each unit. Throws Interrupted.
  virtual std::vector<std::vector<Plan>> plan(std::span<const Future> layer,
                                              std::span<const std::vector<int>> budgets) const = 0;

  /// The plans of every_budget() for a unit alone; proofs may be left out.
  virtual std::vector<Plan> plan_every_budget(const Future& head) const;

  /// One plan per budget for all units of a layer together, which keep the same tokens: the least
  /// sum of costs over the units. Throws std::logic_error unless PolicyInfo::plans_shared.
  virtual std::vector<Plan> plan_shared(std::span<const Future> layer,
                                        std::span<const int> budgets) const;

  /// Whether what it plans for a unit depends on the other units of the layer.
  virtual bool plans_jointly() const { return true; }
};

/// An oracle that plans each unit alone.
class HeadPlanner : public Planner {
 public:
  std::vector<std::vector<Plan>> plan(std::span<const Future> layer,
                                      std::span<const std::vector<int>> budgets) const final;
  bool plans_jointly() const final { return false; }

  /// One plan per budget.
  virtual std::vector<Plan> plan_head(const Future& head, std::span<const int> budgets) const = 0;
};

}  // namespace kvsim
