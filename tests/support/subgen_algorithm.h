#pragma once

#include <functional>
#include <vector>

#include "traces/unit.h"

namespace kvsim::test_support {

/// A coin of Algorithm 1: true with the given probability. `slot` is j of line 16 or i of line 25.
using Coin = std::function<bool(int token, int slot, double probability)>;

/// SubGen Algorithm 1 as printed, in double precision: the output z / tau of one query head at
/// every step. Queries count with the unit's scale. Shares no code with the policy; the coins for
/// keys (line 17) and for values (line 26) are the caller's.
std::vector<Eigen::VectorXd> subgen_algorithm(const Unit& unit, int head, double delta, int s,
                                              int t, const Coin& key_coin, const Coin& value_coin);

/// The exact attention output at every step, likewise.
std::vector<Eigen::VectorXd> exact_attention(const Unit& unit, int head);

}  // namespace kvsim::test_support
