#include "sim/sweep/allocate_by_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sim/base/errors.h"
#include "sim/results/numpy/file_bytes.h"
#include "sim/sweep/apportion.h"
#include "sim/sweep/head_table_formats.h"

namespace kvsim {
namespace {

constexpr int kRatios = 99;

/// The row of a table of 99 ratios. std::nearbyint() takes halves to the even number, as Python.
int row_of(const TotalBudget& budget, int tokens) {
  const double ratio = 1 - static_cast<double>(tokens) / budget.length;
  return std::clamp(static_cast<int>(std::nearbyint(ratio * 100)) - 1, 0, kRatios - 1);
}

std::vector<double> values_of(const HeadTable& table, int row, std::span<const UnitName> units) {
  std::vector<double> values;
  for (const UnitName& unit : units) values.push_back(table.at(row, unit.layer, unit.kv_head));
  return values;
}

/// As apportion(), with the sum of each layer rounded before its heads.
std::vector<int> apportion_layers(int total, int most, const std::vector<double>& weights,
                                  std::span<const UnitName> units) {
  const std::vector<double> ideal = proportional(total, most, weights);
  std::map<int, std::vector<std::size_t>> layers;
  for (std::size_t i = 0; i < units.size(); ++i) layers[units[i].layer].push_back(i);
  std::vector<double> sums;
  for (const auto& [layer, members] : layers) {
    double& sum = sums.emplace_back(0);
    for (const std::size_t unit : members) sum += ideal[unit];
  }
  const std::vector<int> targets = rounded(sums, total, 0, std::numeric_limits<int>::max());
  std::vector<int> shares(units.size());
  std::size_t index = 0;
  for (const auto& [layer, members] : layers) {
    std::vector<double> of_layer;
    for (const std::size_t unit : members) of_layer.push_back(ideal[unit]);
    const std::vector<int> parts = rounded(of_layer, targets[index++], 0, most);
    for (std::size_t i = 0; i < members.size(); ++i) shares[members[i]] = parts[i];
  }
  raise_to(1, total, shares);
  return shares;
}

std::vector<int> by_shares(const TotalBudget& budget, int tokens, std::span<const UnitName> units,
                           const HeadTable& table) {
  const bool is_curve = table.rows == kRatios;
  std::vector<double> kept = values_of(table, is_curve ? row_of(budget, tokens) : 0, units);
  if (is_curve) {
    for (double& share : kept) share = 1 - share;
  }
  return apportion_layers(tokens * static_cast<int>(units.size()), budget.most, kept, units);
}

std::vector<int> by_alpha(const AllocationSpec& allocation, const TotalBudget& budget, int tokens,
                          std::span<const UnitName> units, const HeadTable& table) {
  const int streaming = std::min(
      budget.most, allocation.params().integer("sinks") + allocation.params().integer("recent"));
  std::vector<double> alpha = values_of(table, 0, units);
  for (double& of_head : alpha) of_head = std::clamp(of_head, 0.0, 1.0);
  std::vector<std::size_t> order(units.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return alpha[a] > alpha[b]; });
  std::vector<int> shares(units.size(), streaming);
  int left = (tokens - streaming) * static_cast<int>(units.size());
  for (const std::size_t unit : order) {
    const int more = std::min(left, budget.most - streaming);
    shares[unit] += more;
    left -= more;
  }
  return shares;
}

std::vector<int> by_scores(const AllocationSpec& allocation, const TotalBudget& budget, int tokens,
                           std::span<const UnitName> units, const HeadTable& table) {
  const int window = budget.window.protects;
  if (tokens <= window) return std::vector<int>(units.size(), tokens);
  const int each = tokens - window;
  const double beta = allocation.params().real("beta");
  // Python's each // beta.
  const double pool = std::nearbyint((each - std::fmod(each, beta)) / beta);
  std::vector<double> weights = values_of(table, 0, units);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const auto heads = static_cast<double>(units.size());
  for (double& weight : weights) {
    weight = each - pool + pool * (sum > 0 ? heads * weight / sum : 1);
  }
  std::vector<int> shares = apportion(each * static_cast<int>(units.size()), window > 0 ? 0 : 1,
                                      budget.most - window, weights);
  for (int& share : shares) share += window;
  return shares;
}

}  // namespace

void check_table(const AllocationSpec& allocation, const HeadTable& table) {
  const bool takes_ratios = allocation.rule() == Allocation::file;
  if (table.rows != 1 && !(takes_ratios && table.rows == kRatios)) {
    refuse_file(table.file,
                takes_ratios ? "[99, layers, heads] or [layers, heads]" : "[layers, heads]",
                fmt::format("{} rows of layers", table.rows),
                fmt::format("see kvsim policies @{}", allocation_name(allocation.rule())));
  }
  if (allocation.rule() == Allocation::duo) return;
  double sum = 0;
  for (const double value : table.values) {
    if (std::isnan(value)) continue;
    sum += value;
    if (table.rows == kRatios && (value < 0 || value > 1)) {
      refuse_file(table.file, "shares that heads lose, 0 to 1", fmt::format("{}", value),
                  "write it with python -m kvsim.head_budgets");
    }
    if (value < 0) {
      refuse_file(table.file, "numbers of 0 or more", fmt::format("{}", value),
                  "write nan where a layer has fewer heads");
    }
  }
  if (table.rows == 1 && sum == 0) {
    refuse_file(table.file, "a number above 0", "none", "write weights of heads");
  }
}

void check_duo(const AllocationSpec& allocation, const TotalBudget& budget) {
  const int streaming =
      allocation.params().integer("sinks") + allocation.params().integer("recent");
  if (std::min(budget.tokens, budget.most) >= std::min(streaming, budget.most)) return;
  throw UsageError(
      fmt::format("@{}: a budget of {} tokens is less than the sinks + recent = {} of each "
                  "streaming head; raise it, or name fewer: @duo:PATH,sinks=4,recent=16",
                  allocation.text(), budget.tokens, streaming));
}

std::vector<int> allocate_by_table(const AllocationSpec& allocation, const TotalBudget& budget,
                                   std::span<const UnitName> units, const HeadTable& table) {
  const int tokens = std::min(budget.tokens, budget.most);
  if (tokens == budget.most) return std::vector<int>(units.size(), tokens);
  switch (allocation.rule()) {
    case Allocation::duo:
      check_duo(allocation, budget);
      return by_alpha(allocation, budget, tokens, units, table);
    case Allocation::headkv:
      return by_scores(allocation, budget, tokens, units, table);
    default:
      return by_shares(budget, tokens, units, table);
  }
}

}  // namespace kvsim
