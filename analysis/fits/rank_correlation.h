#pragma once

#include <optional>
#include <span>
#include <vector>

namespace kvsim {

/// Ranks from 1; equal values get the mean of their ranks.
std::vector<double> ranks(std::span<const double> values);

/// Spearman's rank correlation of two lists of the same length; nullopt if either is constant or
/// has fewer than two values.
std::optional<double> rank_correlation(std::span<const double> a, std::span<const double> b);

/// The same of their ranks.
std::optional<double> correlation_of_ranks(std::span<const double> ranks_a,
                                           std::span<const double> ranks_b);

}  // namespace kvsim
