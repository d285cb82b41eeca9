#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "policies/registry/spec.h"
#include "sim/cache/cache.h"

namespace kvsim::policies_test {

/// A table of attention: row t is the attention of step t to tokens 0 .. t, 0 to evicted ones.
using Attention = std::vector<std::vector<float>>;

/// Attention of `n` steps for policies that look only at positions.
inline Attention any_attention(std::size_t n) {
  Attention rows;
  for (std::size_t t = 0; t < n; ++t) rows.emplace_back(t + 1, 1.F / static_cast<float>(t + 1));
  return rows;
}

/// The entries of a table's row for the remaining `tokens`, parallel to them.
inline std::vector<float> among(const std::vector<float>& row,
                                std::span<const std::int32_t> tokens) {
  std::vector<float> values;
  for (const std::int32_t token : tokens) values.push_back(row[static_cast<std::size_t>(token)]);
  return values;
}

/// What a policy sees. All but `attention` may be empty for a policy that does not read it.
struct Shown {
  Attention attention;
  Attention full_attention = {};
  std::vector<std::vector<float>> keys = {};                  ///< per token
  std::vector<std::vector<float>> values = {};                ///< per token
  std::vector<std::vector<std::vector<float>>> queries = {};  ///< per step, then per query head
  std::vector<TokenKind> kinds = {};                          ///< per token
  int prompt = 0;     ///< no eviction before step prompt - 1
  int most_held = 0;  ///< no eviction while at most so many tokens are held
  std::uint64_t seed = 0;
  float scale = 1;
  std::optional<Rotation> rotation = {};
  std::vector<float> sink_logit = {};
};

/// Vectors one after the other.
inline std::vector<float> joined(const std::vector<std::vector<float>>& vectors) {
  std::vector<float> all;
  for (const auto& vector : vectors) all.insert(all.end(), vector.begin(), vector.end());
  return all;
}

/// Per token the step after which the policy evicts it, or the number of rows.
inline std::vector<std::int32_t> evicted_after(const Spec& spec, int budget, const Shown& shown) {
  const Context context{.budget = budget,
                        .seed = shown.seed,
                        .scale = shown.scale,
                        .sink_logit = shown.sink_logit,
                        .rotation = shown.rotation};
  const auto policy = spec.make(context);
  Cache cache(static_cast<int>(shown.attention.size()), budget, spec.rules(context));
  const std::vector<float> keys = joined(shown.keys);
  const std::vector<float> values = joined(shown.values);
  for (int t = 0; t < static_cast<int>(shown.attention.size()); ++t) {
    cache.admit(t);
    const auto row = static_cast<std::size_t>(t);
    const std::vector<float> cached = among(shown.attention[row], cache.tokens());
    std::vector<float> full;
    if (!shown.full_attention.empty()) full = among(shown.full_attention[row], cache.tokens());
    std::vector<TokenKind> kinds;
    for (const std::int32_t token : cache.tokens()) {
      if (!shown.kinds.empty()) kinds.push_back(shown.kinds[static_cast<std::size_t>(token)]);
    }
    const std::size_t dim = shown.keys.empty() ? 0 : shown.keys.front().size();
    const std::size_t value_dim = shown.values.empty() ? 0 : shown.values.front().size();
    std::vector<std::span<const float>> queries;
    if (!shown.queries.empty()) {
      queries.assign(shown.queries[row].begin(), shown.queries[row].end());
    }
    const int overflow = t + 1 < shown.prompt ? 0 : cache.overflow(shown.most_held);
    policy->update({.index = t,
                    .tokens = cache.tokens(),
                    .attention = cached,
                    .full_attention = full,
                    .keys = {keys.data(), dim, cache.tokens()},
                    .values = {values.data(), value_dim, cache.tokens()},
                    .queries = queries,
                    .kinds = kinds,
                    .overflow = overflow},
                   cache.scores());
    if (t + 1 >= shown.prompt) cache.evict(overflow, t);
  }
  return cache.evicted_after();
}

inline std::vector<std::int32_t> evicted_after(std::string_view spec, int budget,
                                               const Attention& attention,
                                               const Attention& full_attention = {},
                                               int prompt = 0) {
  return evicted_after(
      Spec(spec), budget,
      {.attention = attention, .full_attention = full_attention, .prompt = prompt});
}

}  // namespace kvsim::policies_test
