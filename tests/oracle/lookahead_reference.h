#pragma once

#include <string>
#include <vector>

#include "sim/replay/planner.h"

namespace kvsim::oracle_test {

/// How far evictions are from those of a look-ahead over `window` steps: the largest relative
/// excess of the loss after an eviction over the least that evicting another token would have left.
/// By double loops: every loss is computed anew from the tokens that stay. `schedules` are those of
/// the units of a layer; `cost` is "error", "projected" or "predicted".
double lookahead_excess(const std::vector<Unit>& layer, const EvictionSteps& steps, int window,
                        const std::string& cost, const std::vector<Schedule>& schedules);

/// The sum of |ô - o|² over measured steps and query heads of a cache that follows a schedule.
double squared_error(const Unit& unit, const EvictionSteps& steps, const Schedule& schedule);

/// The least such sum of all eviction sequences in stream mode, by dynamic programming over all
/// sets of `budget` tokens. `budget` is below the number of tokens.
double least_squared_error(const Unit& unit, int budget);

}  // namespace kvsim::oracle_test
