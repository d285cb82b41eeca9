#pragma once

#include <cstdint>

#include "sim/sweep/sweep_plan.h"

namespace kvsim {

/// The sizes of a unit on which its costs depend.
struct UnitSizes {
  std::int64_t tokens = 0;
  std::int64_t steps = 0;  ///< measured ones, the last of the text
  std::int64_t group = 1;
  std::int64_t head_dim = 0;
  std::int64_t value_dim = 0;
  std::int64_t hidden = 0;     ///< columns of an output projection that is applied; 0: none
  std::int64_t gradients = 0;  ///< samples that are read

  std::int64_t dims() const { return head_dim + value_dim; }

  /// Steps and the tokens that they see, of the full attention.
  std::int64_t pairs() const { return tokens * (tokens + 1) / 2; }

  /// The same of a cache that holds at most so many tokens, over the measured steps.
  std::int64_t attended(std::int64_t held) const;
};

/// Without `hidden` and `gradients`.
UnitSizes unit_sizes(const SweepPlan& plan, const PlannedUnit& planned);

// Estimates in nanoseconds of one core; README.md says how they were measured.

/// Of reading the unit.
std::int64_t reading_nanoseconds(const UnitSizes& unit);

/// Of the full attention and its outputs for so many pairs of a step and a token.
std::int64_t reference_nanoseconds(const UnitSizes& unit, std::int64_t pairs);

/// Of the whole attention that oracles see.
std::int64_t future_nanoseconds(const UnitSizes& unit);

/// Of an oracle's plan for all budgets together, of which `budget` is the smallest.
std::int64_t planning_nanoseconds(const Spec& policy, const UnitSizes& unit, std::int64_t budget);

}  // namespace kvsim
