#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "policies/spec.h"
#include "sim/core/cache.h"

namespace kvsim::policies_test {

/// A table of attention: row t holds what step t gives to tokens 0 .. t, nothing to those gone.
using Attention = std::vector<std::vector<float>>;

/// The attention of `n` steps that matters to no policy looking only at positions.
inline Attention any_attention(std::size_t n) {
  Attention rows;
  for (std::size_t t = 0; t < n; ++t) rows.emplace_back(t + 1, 1.F / static_cast<float>(t + 1));
  return rows;
}

/// What remains of a table's row once tokens have left, parallel to `tokens`.
inline std::vector<float> among(const std::vector<float>& row,
                                std::span<const std::int32_t> tokens) {
  std::vector<float> values;
  for (const std::int32_t token : tokens) values.push_back(row[static_cast<std::size_t>(token)]);
  return values;
}

/// Per token the step after which the policy lets it go, or the number of rows. The first `prompt`
/// steps evict nothing before the last of them.
inline std::vector<std::int32_t> evicted_after(const Spec& spec, int budget,
                                               const Attention& attention,
                                               const Attention& full_attention = {}, int prompt = 0,
                                               std::uint64_t seed = 0) {
  const auto policy = spec.make({.budget = budget, .seed = seed});
  Cache cache(static_cast<int>(attention.size()), budget, policy->rules());
  for (int t = 0; t < static_cast<int>(attention.size()); ++t) {
    cache.admit(t);
    const auto row = static_cast<std::size_t>(t);
    const std::vector<float> cached = among(attention[row], cache.tokens());
    std::vector<float> full;
    if (!full_attention.empty()) full = among(full_attention[row], cache.tokens());
    const int overflow = t + 1 < prompt ? 0 : cache.overflow();
    policy->update({.index = t,
                    .tokens = cache.tokens(),
                    .attention = cached,
                    .full_attention = full,
                    .overflow = overflow},
                   cache.scores());
    cache.evict(overflow, t);
  }
  return cache.evicted_after();
}

inline std::vector<std::int32_t> evicted_after(std::string_view spec, int budget,
                                               const Attention& attention,
                                               const Attention& full_attention = {},
                                               int prompt = 0) {
  return evicted_after(Spec(spec), budget, attention, full_attention, prompt);
}

}  // namespace kvsim::policies_test
