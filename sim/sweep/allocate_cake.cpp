#include "sim/sweep/allocate_cake.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvsim {
namespace {

/// Adds `more` evenly to the parts below `most`, whom it may lift above.
void add_evenly(int more, int most, std::vector<int>& parts) {
  const auto is_open = [&](int part) { return part < most; };
  const auto open = static_cast<int>(std::count_if(parts.begin(), parts.end(), is_open));
  if (open == 0) return;
  int one_more = more % open;
  for (int& part : parts) {
    if (!is_open(part)) continue;
    part += more / open + (one_more > 0 ? 1 : 0);
    --one_more;
  }
}

/// Cuts the parts down to `most`. Returns how much that takes off.
int cut(int most, std::vector<int>& parts) {
  int excess = 0;
  for (int& part : parts) {
    excess += std::max(0, part - most);
    part = std::min(part, most);
  }
  return excess;
}

/// Relative to the largest: powers of small and large numbers have no other number.
std::vector<double> relative_preferences(const std::vector<double>& logarithms) {
  const double largest = *std::max_element(logarithms.begin(), logarithms.end());
  std::vector<double> preferences;
  for (const double logarithm : logarithms) {
    preferences.push_back(std::isfinite(largest) ? std::exp(logarithm - largest) : 0);
  }
  return preferences;
}

}  // namespace

double cake_preference(const AttentionSpread& spread, double tau1, double tau2) {
  return std::log(std::max(0.0, spread.entropy)) / tau1 +
         std::log(std::max(0.0, spread.variance)) / tau2;
}

std::vector<int> cake_parts(int total, int most, const std::vector<double>& logarithms) {
  const std::vector<double> preferences = relative_preferences(logarithms);
  const double sum = std::accumulate(preferences.begin(), preferences.end(), 0.0);
  std::vector<int> parts;
  for (const double preference : preferences) {
    const double share = sum > 0 ? preference / sum : 1 / static_cast<double>(preferences.size());
    parts.push_back(static_cast<int>(share * total));
  }
  add_evenly(cut(most, parts), most, parts);
  const int there = std::accumulate(parts.begin(), parts.end(), 0);
  add_evenly(total - there, most, parts);
  for (int excess = cut(most, parts); excess > 0; excess = cut(most, parts)) {
    if (std::all_of(parts.begin(), parts.end(), [&](int part) { return part == most; })) break;
    add_evenly(excess, most, parts);
  }
  return parts;
}

}  // namespace kvsim
