// kvsim curve --page: caches of pages that nest, and the stack of pages that stands for all of
// them.

#include <catch2/catch.hpp>

#include "policies/registry/registry.h"
#include "sim/base/errors.h"
#include "sim/protocol/budget.h"
#include "tests/support/curves.h"
#include "tests/support/nesting.h"
#include "tests/support/nightly.h"

namespace kvsim::page_curve_test {

using namespace test_support;

/// Of few tokens, of about a block, of more than the text.
std::vector<Paging> pagings() {
  if (is_watched()) return {{3, PageScore::max}, {16}};
  const std::vector<Paging> some = {
      {2, PageScore::mean}, {3, PageScore::max}, {7, PageScore::min}, {16}, {100}};
  return sample_of(some, {{2, PageScore::mean},
                          {2, PageScore::min},
                          {3, PageScore::max},
                          {4, PageScore::min},
                          {5},
                          {7, PageScore::min},
                          {16},
                          {16, PageScore::max},
                          {33, PageScore::max},
                          {64, PageScore::min},
                          {100}});
}

std::vector<Spec> policies_with_pages() {
  std::vector<Spec> specs = policies_to_try();
  std::erase_if(specs,
                [](const Spec& policy) { return policy.is_oracle() && !policy.plans_pages(); });
  for (const char* text : {"sink:sinks=5", "h2o:recent=20,score=full", "reservoir:recent=3"}) {
    specs.emplace_back(text);
  }
  return specs;
}

std::vector<Outcome> replays_of(const Unit& unit, const Spec& policy, const Protocol& protocol) {
  std::vector<Configuration> configurations;
  for (const int budget : every_budget(protocol, unit.num_tokens())) {
    configurations.push_back({policy, budget});
  }
  return replay(unit, configurations, {.protocol = protocol, .seed = 1, .trajectories = true},
                *make_cpu_backend());
}

/// Calls take(protocol, policy, replays) for each; the replays are of every budget.
template <class Take>
void for_each_replayed(const NestingCase& c, const Take& take) {
  for (const Paging& paging : pagings()) {
    for (const Spec& policy : policies_with_pages()) {
      const Protocol protocol{.mode = c.mode, .paging = paging};
      CAPTURE(c.name, protocol.name(), policy.text());
      take(protocol, policy, replays_of(c.unit, policy, protocol));
    }
  }
}

TEST_CASE("caches of pages nest, and a curve has their counts and the tokens they keep",
          "[curve]") {
  for (const NestingCase& c : nesting_cases()) {
    for_each_replayed(c, [&](const Protocol& protocol, const Spec& policy, const auto& replays) {
      const Curve curve = curve_of(c.unit, policy, {.protocol = protocol, .schedules = true});
      REQUIRE(curve.budgets == every_budget(protocol, c.unit.num_tokens()));
      REQUIRE(curve.attention_loss.size() == replays.size());
      for (std::size_t i = 0; i < replays.size(); ++i) {
        CAPTURE(curve.budgets[i]);
        require_counts(curve, i, replays[i]);
      }
      CHECK(curve.token_misses.back() == 0);
      if (!policy.is_oracle()) CHECK_FALSE(first_not_nested(replays));
    });
  }
}

/// Every budget; and a few, for which another class computes.
void check_all_errors(const Unit& unit, const Spec& policy, const Protocol& protocol,
                      const std::vector<Outcome>& replays) {
  const std::vector<int> all = every_budget(protocol, unit.num_tokens());
  for (const auto& asked : {all, {all.back()}, {all.front(), all[all.size() / 2]}}) {
    std::vector<int> budgets = asked;
    budgets.erase(std::unique(budgets.begin(), budgets.end()), budgets.end());
    const Curve curve = curve_of(unit, policy, {.protocol = protocol, .error_budgets = budgets});
    REQUIRE(curve.output_error.size() == budgets.size());
    for (const int budget : budgets) {
      CAPTURE(budgets.size(), budget);
      const std::size_t i =
          static_cast<std::size_t>(std::lower_bound(all.begin(), all.end(), budget) - all.begin());
      check_errors(curve.output_error.at(budget), replays[i].result);
    }
  }
}

TEST_CASE("a curve of pages has the output errors of a replay at each budget", "[curve]") {
  for (const NestingCase& c : nesting_cases()) {
    for_each_replayed(c, [&](const Protocol& protocol, const Spec& policy, const auto& replays) {
      check_all_errors(c.unit, policy, protocol, replays);
    });
  }
}

// Tokens are added by 64, dimensions by up to 128.
TEST_CASE("a curve of pages has the errors of replays of long texts", "[curve]") {
  for (const char* policy : {"h2o:recent=7,score=full", "random", "optimal"}) {
    for (const int value_dim : is_watched() ? std::vector{21} : std::vector{2, 21}) {
      const UnitShape shape{.tokens = 205, .value_dim = value_dim, .group = 2, .prompt_length = 70};
      Unit unit = random_unit(shape, static_cast<std::uint64_t>(value_dim));
      unit.sink_logit = {1.F, 7.F};
      for (const int page : is_watched() ? std::vector{3, 30} : std::vector{2, 3, 30}) {
        for (const Mode mode : {Mode::stream, Mode::prefill}) {
          const Protocol protocol{.mode = mode, .paging = {.size = page}};
          CAPTURE(policy, value_dim, protocol.name());
          check_all_errors(unit, Spec(policy), protocol, replays_of(unit, Spec(policy), protocol));
        }
      }
    }
    const Unit peaked = random_unit({.tokens = 205, .value_dim = 20, .spread = 50}, 3);
    for (const int page : {3, 30}) {
      const Protocol protocol{.paging = {.size = page}};
      check_all_errors(peaked, Spec(policy), protocol, replays_of(peaked, Spec(policy), protocol));
    }
  }
}

// A text may end at any place of a page, and a prompt too.
TEST_CASE("a curve of pages is that of replays whatever the places of the ends", "[curve]") {
  const int tokens = GENERATE(1, 2, 3, 15, 16, 17, 31, 32, 33, 47, 48);
  for (const int prompt : {0, 1, 7, 8, 9, 15, 16, 17, 30}) {
    if (prompt >= tokens) continue;
    const UnitShape shape{.tokens = tokens, .group = 2, .prompt_length = prompt};
    const Unit unit = random_unit(shape, static_cast<std::uint64_t>(100 * tokens + prompt));
    for (const char* policy : {"window", "sink:sinks=3", "h2o:recent=9,score=full", "optimal"}) {
      for (const int page : {2, 8}) {
        const Protocol protocol{.mode = prompt == 0 ? Mode::stream : Mode::prefill,
                                .paging = {.size = page}};
        CAPTURE(tokens, prompt, policy, page);
        const auto replays = replays_of(unit, Spec(policy), protocol);
        const Curve curve = curve_of(unit, Spec(policy), {.protocol = protocol, .schedules = true});
        for (std::size_t i = 0; i < replays.size(); ++i) {
          CAPTURE(curve.budgets[i]);
          CHECK(curve.evicted_after[i] == replays[i].trajectory.evicted_after);
          CHECK(curve.token_misses[i] == replays[i].result.token_misses);
          CHECK(curve.evictions[i] == replays[i].result.evictions);
          CHECK(curve.peak_tokens[i] == replays[i].result.peak_tokens);
        }
        check_all_errors(unit, Spec(policy), protocol, replays);
      }
    }
  }
}

TEST_CASE("no curve of pages lies above that of their optimum", "[curve]") {
  const Unit unit = random_unit({.tokens = 80, .group = 2}, 11);
  for (const Paging& paging : pagings()) {
    const CurveOptions options{.protocol = {.paging = paging}};
    const Curve optimal = curve_of(unit, Spec("optimal"), options);
    for (const Spec& policy : policies_with_pages()) {
      const Curve curve = curve_of(unit, policy, options);
      for (std::size_t i = 0; i < curve.attention_loss.size(); ++i) {
        CAPTURE(policy.text(), paging.size, i);
        REQUIRE(curve.attention_loss[i] >= optimal.attention_loss[i] - 1e-6);
      }
    }
  }
}

TEST_CASE("an oracle that plans token by token has no curve of pages", "[curve]") {
  const Unit unit = random_unit({.tokens = 20}, 1);
  CHECK_THROWS_WITH(curve_of(unit, Spec("optimal:recent=5"), {.protocol = {.paging = {.size = 4}}}),
                    Catch::Contains("--page 4 cannot replay optimal:recent=5"));
}

}  // namespace kvsim::page_curve_test
