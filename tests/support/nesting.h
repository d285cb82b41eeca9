#pragma once

#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "policies/registry/spec.h"
#include "sim/replay/replay.h"
#include "tests/support/nightly.h"
#include "tests/support/units.h"

namespace kvsim::test_support {

/// A replay at every budget 1 .. n, in this order, with trajectories.
inline std::vector<Outcome> replay_every_budget(const Unit& unit, const Spec& policy, Mode mode) {
  std::vector<Configuration> configurations;
  for (int budget = 1; budget <= unit.num_tokens(); ++budget) {
    configurations.push_back({policy, budget});
  }
  return replay(unit, configurations, {.protocol = {.mode = mode}, .seed = 1, .trajectories = true},
                *make_cpu_backend());
}

/// The first budget that keeps a token longer than the next larger budget does. None if the caches
/// nest.
inline std::optional<int> first_not_nested(const std::vector<Outcome>& by_budget) {
  for (std::size_t i = 0; i + 1 < by_budget.size(); ++i) {
    const auto& smaller = by_budget[i].trajectory.evicted_after;
    const auto& larger = by_budget[i + 1].trajectory.evicted_after;
    for (std::size_t token = 0; token < smaller.size(); ++token) {
      if (smaller[token] > larger[token]) return static_cast<int>(i) + 1;
    }
  }
  return std::nullopt;
}

/// A unit to check a property on.
struct NestingCase {
  std::string name;
  Unit unit;
  Mode mode = Mode::stream;
};

/// One and several query heads, texts that do not end with a block, sliding window, learned sinks,
/// chunks, soft-capping, ties everywhere, weights that underflow, prefill. Where sanitizers watch,
/// one of those that are alike.
inline std::vector<NestingCase> nesting_cases() {
  std::vector<NestingCase> cases;
  const auto add = [&](std::string name, const UnitShape& shape, Mode mode = Mode::stream) {
    cases.push_back({std::move(name), random_unit(shape, 40 + cases.size()), mode});
    return &cases.back().unit;
  };
  add("one query head", {.tokens = 61});
  add("longer than a block", {.tokens = 83, .value_dim = 5});
  add("three query heads", {.tokens = 70, .group = 3});
  add("sliding window", {.tokens = 75})->sliding_window = 9;
  add("learned sinks", {.tokens = 70, .group = 2, .sink_logit = 2.F});
  add("sinks with most of the attention", {.tokens = 66, .sink_logit = 9.F});
  add("chunks", {.tokens = 70, .sink_logit = 0.F, .attention_chunk = 29});
  add("selected tokens", {.tokens = 70, .group = 2, .selected = 5});
  add("one selected token and a sink", {.tokens = 66, .sink_logit = 0.F, .selected = 1});
  add("soft cap", {.tokens = 66, .spread = 4})->logit_softcap = 2;
  add("peaked", {.tokens = 70, .spread = 40});
  add("one token", {.tokens = 1});
  add("prompt", {.tokens = 72, .prompt_length = 31}, Mode::prefill);
  add("prompt, two query heads", {.tokens = 90, .group = 2, .prompt_length = 67}, Mode::prefill);
  add("prompt of one token", {.tokens = 40, .prompt_length = 1}, Mode::prefill);
  cases.push_back({"ties", uniform_unit({.tokens = 65}), Mode::stream});
  cases.push_back(
      {"ties after a prompt", uniform_unit({.tokens = 65, .prompt_length = 20}), Mode::prefill});
  const std::set<std::string> like_others = {"one query head",
                                             "longer than a block",
                                             "sinks with most of the attention",
                                             "soft cap",
                                             "one selected token and a sink",
                                             "peaked",
                                             "prompt",
                                             "ties"};
  if (is_watched()) {
    std::erase_if(cases, [&](const NestingCase& c) { return like_others.contains(c.name); });
  }
  return cases;
}

}  // namespace kvsim::test_support
