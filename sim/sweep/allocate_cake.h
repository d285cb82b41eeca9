#pragma once

#include <vector>

#include "sim/sweep/attention_spread.h"

namespace kvsim {

/// The logarithm of a layer's preference, H^(1/tau1) V^(1/tau2) (CAKE section 4.1), which itself
/// may exceed all numbers.
double cake_preference(const AttentionSpread& spread, double tau1, double tau2);

/// Whole numbers in proportion to preferences of these `logarithms`, rounded as cakekv does
/// (adjust_budgets() of cake/utils.py): down, at most `most` each; then what that took off, and
/// then what rounding left, evenly to those below `most`, the first of them one more. Repeated
/// until none exceeds `most`, which the program does not do.
std::vector<int> cake_parts(int total, int most, const std::vector<double>& logarithms);

}  // namespace kvsim
