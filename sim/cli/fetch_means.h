#pragma once

#include <string>
#include <vector>

#include "analysis/cost/two_tiers.h"

namespace kvsim::cli {

/// Rows of the table `fetch` that differ in nothing but the unit, as one.
struct FetchMean {
  std::string select;
  std::string resident;  ///< as it was asked for; of a curve, tokens
  std::string replace;
  std::string mode;
  TwoTiers tiers;  ///< means over the units
};

/// All of them in the table of a result file, in the order of their names. Throws UsageError if
/// there is no row, and what ResultStore throws.
std::vector<FetchMean> fetch_means(const std::string& file);

}  // namespace kvsim::cli
