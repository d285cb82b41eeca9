#include "sim/sweep/allocate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "sim/attention/attention_blocks.h"
#include "sim/attention/persistence.h"

namespace kvsim {
namespace {

constexpr int kWindow = 32;          // SnapKV's observation window, also AdaKV's
constexpr double kFloor = 0.2;       // AdaKV: the share of its uniform budget that every head keeps
constexpr double kPyramidBase = 20;  // PyramidKV's beta

/// Whole numbers in proportion to `weights`, at least 1 and at most `most` each, with the given sum
/// if that many fit: what exceeds `most` goes to the others, then largest remainders first, earlier
/// ones first among equals.
std::vector<int> apportion(int total, int most, const std::vector<double>& weights) {
  std::vector<double> ideal(weights.size(), 0);
  std::vector<bool> is_full(weights.size(), false);
  for (bool is_changing = true; is_changing;) {
    is_changing = false;
    double open = total;
    double weight = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (is_full[i]) open -= most;
      if (!is_full[i]) weight += weights[i];
    }
    for (std::size_t i = 0; i < weights.size(); ++i) {
      ideal[i] = is_full[i] ? most : open * weights[i] / weight;
      if (is_full[i] || ideal[i] < most) continue;
      is_full[i] = true;
      is_changing = true;
    }
  }
  std::vector<int> parts;
  for (const double part : ideal) parts.push_back(std::max(1, static_cast<int>(part)));
  for (int sum = std::accumulate(parts.begin(), parts.end(), 0); sum < total; ++sum) {
    std::size_t next = parts.size();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i] == most) continue;
      if (next == parts.size() || ideal[i] - parts[i] > ideal[next] - parts[next]) next = i;
    }
    if (next == parts.size()) break;
    ++parts[next];
  }
  for (int sum = std::accumulate(parts.begin(), parts.end(), 0); sum > total; --sum) {
    --*std::max_element(parts.begin(), parts.end());
  }
  return parts;
}

using Layers = std::map<int, std::vector<std::size_t>>;  // the units of each layer

std::vector<double> pyramid_weights(std::size_t layers) {
  const double last = 1 / kPyramidBase;
  std::vector<double> weights;
  for (std::size_t i = 0; i < layers; ++i) {
    const double depth =
        layers == 1 ? 0.5 : static_cast<double>(i) / static_cast<double>(layers - 1);
    weights.push_back((2 - last) * (1 - depth) + last * depth);
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

/// Splits over layers, so that heads of a layer get the same; over heads if layers differ in their
/// number of heads, because a split over layers would change the total.
std::vector<int> by_layer(int budget, int most, const Layers& layers,
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
  if (!is_even) return apportion(budget * static_cast<int>(num_units), most, of_unit);
  const std::vector<int> of_layer =
      apportion(budget * static_cast<int>(layers.size()), most, weights);
  std::vector<int> shares;
  for (const std::size_t layer : layer_of_unit) shares.push_back(of_layer[layer]);
  return shares;
}

/// How many tokens each head of a layer gets if the best of all heads' tokens are kept, after every
/// head has its own best `floor` ones.
std::vector<double> adaptive_weights(int budget, const std::vector<std::size_t>& members,
                                     std::span<const UnitProfile> units) {
  const auto floor = static_cast<std::size_t>(std::floor(kFloor * budget));
  std::vector<std::pair<double, std::size_t>> contenders;
  for (std::size_t head = 0; head < members.size(); ++head) {
    std::vector<double> scores = units[members[head]].window_attention;
    std::sort(scores.begin(), scores.end(), std::greater<>());
    for (std::size_t i = floor; i < scores.size(); ++i) contenders.emplace_back(-scores[i], head);
  }
  std::sort(contenders.begin(), contenders.end());
  const std::size_t open = (static_cast<std::size_t>(budget) - floor) * members.size();
  std::vector<double> weights(members.size(), static_cast<double>(floor));
  for (std::size_t i = 0; i < std::min(open, contenders.size()); ++i) {
    weights[contenders[i].second] += 1;
  }
  for (double& weight : weights) weight = std::max(weight, 1.0);
  return weights;
}

}  // namespace

UnitProfile measure_profile(const Unit& unit, Mode mode, const Backend& backend) {
  const int steps = mode == Mode::prefill ? unit.prompt_length : unit.num_tokens();
  UnitProfile profile{.name = unit.name, .window_attention = std::vector<double>(steps)};
  std::vector<Persistence> persistence(unit.query.size(), Persistence(steps));
  for_each_block(unit, steps, backend, [&](const AttentionBlock& block) {
    for (std::size_t head = 0; head < block.heads.size(); ++head) {
      const HeadAttention& attention = block.heads[head];
      for (int row = 0; row < block.num_steps; ++row) {
        const int step = block.first_step + row;
        persistence[head].add(attention, step, row, first_visible(unit, step));
        if (step < steps - kWindow) continue;
        for (int token = 0; token <= step; ++token) {
          profile.window_attention[token] +=
              attention.weight(row, token) / attention.weight_sum[row];
        }
      }
    }
  });
  profile.persistence = 0;
  for (const Persistence& head : persistence) {
    profile.persistence += head.at_some_step(steps / 2).ratio();
  }
  profile.persistence /= static_cast<double>(persistence.size());
  return profile;
}

std::vector<int> allocate(Allocation allocation, int budget, int most,
                          std::span<const UnitProfile> units) {
  budget = std::min(budget, most);
  Layers layers;
  for (std::size_t i = 0; i < units.size(); ++i) layers[units[i].name.layer].push_back(i);
  switch (allocation) {
    case Allocation::uniform:
      break;
    case Allocation::pyramid:
      return by_layer(budget, most, layers, pyramid_weights(layers.size()), units.size());
    case Allocation::persistence:
      return by_layer(budget, most, layers, persistence_weights(layers, units), units.size());
    case Allocation::adaptive: {
      std::vector<int> shares(units.size());
      for (const auto& [layer, members] : layers) {
        const std::vector<int> of_head = apportion(budget * static_cast<int>(members.size()), most,
                                                   adaptive_weights(budget, members, units));
        for (std::size_t i = 0; i < members.size(); ++i) shares[members[i]] = of_head[i];
      }
      return shares;
    }
  }
  return std::vector<int>(units.size(), budget);
}

}  // namespace kvsim
