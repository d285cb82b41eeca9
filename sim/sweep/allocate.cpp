#include "sim/sweep/allocate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>

#include "policies/parts/pooling.h"
#include "sim/attention/attention_blocks.h"
#include "sim/attention/persistence.h"
#include "sim/sweep/allocate_by_table.h"
#include "sim/sweep/allocate_cake.h"
#include "sim/sweep/apportion.h"

namespace kvsim {
namespace {

constexpr double kFloor = 0.2;    // AdaKV: the share of its uniform budget that every head keeps
constexpr int kPyramidBase = 20;  // PyramidKV's beta

using Layers = std::map<int, std::vector<std::size_t>>;  // the units of each layer

// Splits the tokens outside the window, `each` per head on average. `first` and `last` are whole
// numbers, as in the program.
std::vector<double> pyramid_weights(std::size_t layers, int each, const TotalBudget& budget) {
  int last = each / kPyramidBase;
  int first = 2 * each - last;
  const int room = budget.length - budget.window.protects;
  if (first > room) {
    first = room;
    last = 2 * each - first;
  }
  if (layers == 1 || 2 * each > budget.length) return std::vector<double>(layers, 1);
  std::vector<double> weights;
  for (std::size_t i = 0; i < layers; ++i) {
    weights.push_back(first -
                      static_cast<double>(i) * (first - last) / static_cast<double>(layers - 1));
  }
  return weights;
}

std::vector<double> persistence_weights(const Layers& layers, std::span<const UnitProfile> units) {
  std::vector<double> weights;
  for (const auto& [layer, members] : layers) {
    double sum = 0;
    for (const std::size_t unit : members) sum += units[unit].persistence;
    // Limits the share of a layer in which nothing persists.
    weights.push_back(1 / std::max(0.01, sum / static_cast<double>(members.size())));
  }
  return weights;
}

/// How whole numbers in proportion to weights are made: (total, weights).
using Parts = std::function<std::vector<int>(int, const std::vector<double>&)>;

/// Splits over layers, so that heads of a layer get the same; over heads if layers differ in their
/// number of heads, because a split over layers would change the total.
std::vector<int> by_layer(int budget, const Parts& parts, const Layers& layers,
                          const std::vector<double>& weights, std::size_t num_units) {
  const std::size_t heads = layers.begin()->second.size();
  const bool is_even = std::all_of(layers.begin(), layers.end(),
                                   [&](const auto& layer) { return layer.second.size() == heads; });
  std::vector<double> of_unit(num_units);
  std::vector<std::size_t> layer_of_unit(num_units);
  std::size_t index = 0;
  for (const auto& [layer, members] : layers) {
    for (const std::size_t unit : members) {
      of_unit[unit] = weights[index];
      layer_of_unit[unit] = index;
    }
    ++index;
  }
  if (!is_even) return parts(budget * static_cast<int>(num_units), of_unit);
  const std::vector<int> of_layer = parts(budget * static_cast<int>(layers.size()), weights);
  std::vector<int> shares;
  for (const std::size_t layer : layer_of_unit) shares.push_back(of_layer[layer]);
  return shares;
}

std::vector<double> cake_weights(const AllocationSpec& allocation, const Layers& layers, int steps,
                                 std::span<const UnitProfile> units) {
  std::vector<double> weights;
  for (const auto& [layer, members] : layers) {
    AttentionSpread sum;
    for (const std::size_t unit : members) {
      const AttentionSpread& own = units[unit].spread_of_last.at(steps);
      sum.entropy += own.entropy;
      sum.variance += own.variance;
    }
    weights.push_back(
        cake_preference(sum, allocation.params().real("tau1"), allocation.params().real("tau2")));
  }
  return weights;
}

/// The votes for the tokens of a head that are older than the window.
std::vector<double> contenders_of(const UnitProfile& unit, const PolicyWindow& window) {
  const std::vector<double>& votes = unit.attention_of_last.at(window.voting_steps);
  const auto older = [&](int newest) {
    return votes.size() - std::min(votes.size(), static_cast<std::size_t>(newest));
  };
  if (window.kernel == 1) {
    const auto contenders = std::span(votes).first(older(window.protects));
    return {contenders.begin(), contenders.end()};
  }
  // The steps that vote are no neighbours of the tokens for which they vote.
  std::vector<double> pooled = pool_neighbours({votes.data(), older(window.voting_steps)},
                                               window.kernel, window.pools_maximum);
  pooled.resize(std::min(pooled.size(), older(window.protects)));
  return pooled;
}

/// Returns how many tokens outside the window each head of a layer gets, `each` on average, if the
/// best of all heads' tokens are kept after every head has kept its own best `safe` ones.
std::vector<double> adaptive_weights(int each, int safe, const PolicyWindow& window,
                                     const std::vector<std::size_t>& members,
                                     std::span<const UnitProfile> units) {
  std::vector<double> weights(members.size(), safe);
  std::vector<std::pair<double, std::size_t>> contenders;
  for (std::size_t head = 0; head < members.size(); ++head) {
    std::vector<double> votes = contenders_of(units[members[head]], window);
    std::sort(votes.begin(), votes.end(), std::greater<>());
    for (std::size_t i = static_cast<std::size_t>(safe); i < votes.size(); ++i) {
      contenders.emplace_back(-votes[i], head);
    }
  }
  std::sort(contenders.begin(), contenders.end());
  const std::size_t open = static_cast<std::size_t>(each - safe) * members.size();
  for (std::size_t i = 0; i < std::min(open, contenders.size()); ++i) {
    weights[contenders[i].second] += 1;
  }
  return weights;
}

}  // namespace

UnitProfile measure_profile(const Unit& unit, const Protocol& protocol, const Backend& backend,
                            const std::set<int>& last_steps) {
  const int steps = protocol.base(unit.num_tokens(), unit.prompt_length);
  UnitProfile profile{.name = unit.name};
  for (const int count : last_steps) {
    profile.attention_of_last[count].resize(static_cast<std::size_t>(steps));
  }
  std::map<int, SpreadOfLast> spreads;
  for (const int count : last_steps) {
    spreads.emplace(count, SpreadOfLast(steps, count, unit.query.size()));
  }
  std::vector<Persistence> persistence(unit.query.size(), Persistence(steps));
  for_each_block(unit, steps, backend, [&](const AttentionBlock& block) {
    std::vector<std::vector<std::int32_t>> visible;
    for (int row = 0; row < block.num_steps; ++row) {
      visible.push_back(visible_tokens(unit, block.first_step + row));
    }
    for (std::size_t head = 0; head < block.heads.size(); ++head) {
      const HeadAttention& attention = block.heads[head];
      for (int row = 0; row < block.num_steps; ++row) {
        const int step = block.first_step + row;
        persistence[head].add(attention, step, row, visible[row]);
        for (auto& [count, spread] : spreads) spread.add(head, step, attention, row);
        for (auto& [count, sums] : profile.attention_of_last) {
          if (step < steps - count) continue;
          for (int token = 0; token <= step; ++token) {
            sums[token] += attention.weight(row, token) / attention.weight_sum[row];
          }
        }
      }
    }
  });
  for (const auto& [count, spread] : spreads) profile.spread_of_last[count] = spread.spread();
  profile.persistence = 0;
  for (const Persistence& head : persistence) {
    profile.persistence += head.at_some_step(steps / 2).ratio();
  }
  profile.persistence /= static_cast<double>(persistence.size());
  return profile;
}

PolicyWindow window_of(const Spec& policy, int budget) {
  PolicyWindow window;
  const Rules rules = policy.rules({.budget = budget});
  // A share of the budget is a smaller window where a head gets less.
  const int other = budget < 1'000'000'000 ? budget + 1000 : budget - 1000;
  const bool is_share = policy.rules({.budget = other}).protect_newest != rules.protect_newest;
  if (!is_share) window.protects = rules.protect_newest;
  const std::optional<ScoreRule>& rule = rules.score ? rules.score : rules.wrapped_score;
  if (rule && rule->kind == ScoreRule::Kind::votes) {
    window.voting_steps = rule->length;
    window.kernel = static_cast<std::size_t>(rule->part);
    window.pools_maximum = !rule->adds;
  }
  return window;
}

std::vector<int> allocate(const AllocationSpec& allocation, const TotalBudget& budget,
                          std::span<const UnitProfile> units, const HeadTable* table) {
  const Allocation rule = allocation.rule();
  if (allocation.reads_file()) {
    if (table == nullptr) throw std::logic_error("this split needs the numbers of its file");
    std::vector<UnitName> names;
    for (const UnitProfile& unit : units) names.push_back(unit.name);
    return allocate_by_table(allocation, budget, names, *table);
  }
  const int tokens = std::min(budget.tokens, budget.most);
  Layers layers;
  for (std::size_t i = 0; i < units.size(); ++i) layers[units[i].name.layer].push_back(i);
  const int window = follows_policy(rule) ? budget.window.protects : 0;
  std::vector<int> shares(units.size(), tokens);
  if (rule == Allocation::uniform || tokens <= window) return shares;
  const int each = tokens - window;
  const int least = window > 0 ? 0 : 1;
  const int most = budget.most - window;
  if (rule == Allocation::adaptive) {
    const int safe = std::max(0, static_cast<int>(kFloor * tokens) - window);
    for (const auto& [layer, members] : layers) {
      const std::vector<int> of_head =
          apportion(each * static_cast<int>(members.size()), least, most,
                    adaptive_weights(each, safe, budget.window, members, units));
      for (std::size_t i = 0; i < members.size(); ++i) shares[members[i]] = window + of_head[i];
    }
    return shares;
  }
  if (rule == Allocation::cake) {
    const int most_cut = std::min(budget.most, budget.length) - window;
    if (each >= most_cut) return shares;
    shares = by_layer(
        each,
        [&](int total, const std::vector<double>& weights) {
          std::vector<int> parts = cake_parts(total, most_cut, weights);
          raise_to(least, total, parts);
          return parts;
        },
        layers, cake_weights(allocation, layers, budget.window.voting_steps, units), units.size());
  } else {
    shares = by_layer(
        each,
        [&](int total, const std::vector<double>& weights) {
          return apportion(total, least, most, weights);
        },
        layers,
        rule == Allocation::pyramid ? pyramid_weights(layers.size(), each, budget)
                                    : persistence_weights(layers, units),
        units.size());
  }
  for (int& share : shares) share += window;
  return shares;
}

}  // namespace kvsim
