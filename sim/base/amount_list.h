#pragma once

#include <string_view>
#include <vector>

#include "sim/base/amount.h"

namespace kvsim {

/// An amount, or a range of them with a step: "5%..50%:5%", "16..256:16", "0.1..0.5:0.1". The first
/// amount of a range is in it, the last one if a step hits it. Throws UsageError, starting with
/// `what`, as Amount::parse() does, and for a range that is empty, has no step, mixes the forms of
/// amounts, or has more than kMostOfARange of them.
std::vector<Amount> parse_amounts(std::string_view text, std::string_view what);

/// The same for budgets, which may be sizes: "64KiB..256KiB:64KiB" (Amount::parse_budget()).
std::vector<Amount> parse_budget_amounts(std::string_view text, std::string_view what);

inline constexpr int kMostOfARange = 1000;

}  // namespace kvsim
