#include <algorithm>
#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "sim/replay/replay.h"
#include "sim/replay/replay_checks.h"
#include "tests/support/units.h"
#include "tests/support/variants.h"

namespace kvsim::pages_test {

using namespace test_support;

constexpr int kPage = 8;
const UnitShape kShape{.tokens = 100, .group = 2, .prompt_length = 35};

bool is_refused(const Protocol& protocol, const Spec& policy) {
  try {
    check_protocol(protocol, policy, 2 * kPage);
    return false;
  } catch (const UsageError&) {
    return true;
  }
}

TEST_CASE("under pages whole pages leave, once they are complete, and the budget holds",
          "[registry]") {
  const std::vector<Unit> units = random_units(kShape, 31);
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  int replayed = 0;
  for (const Variant& variant : all_variants()) {
    ReplayOptions options = options_for(variant.spec, {.protocol = {.mode = mode}});
    options.protocol.paging.size = kPage;
    options.trajectories = true;
    const Rules rules = variant.spec.rules({.budget = 2 * kPage});
    if (is_refused(options.protocol, variant.spec) || rules.selects) continue;
    for (const int budget : {2 * kPage, 5 * kPage}) {
      CAPTURE(variant.spec.text(), budget);
      const auto outcomes =
          replay_together(units, {{variant.spec, budget}}, options, *make_cpu_backend()).front();
      ++replayed;
      for (const Outcome& outcome : outcomes) {
        const auto& left = outcome.trajectory.evicted_after;
        const int n = units.front().num_tokens();
        for (int token = 0; token < n; ++token) {
          const int first = token / kPage * kPage;
          REQUIRE(left[token] == left[first]);
          REQUIRE((left[token] == n || left[token] >= first + kPage));
        }
        CHECK(outcome.result.bound_violations.value_or(0) == 0);
        if (!rules.bounded || options.protocol.evicts_once()) continue;
        const bool attends_to_all = variant.spec.rules({.budget = budget}).keeps_evicted();
        CHECK(outcome.result.peak_tokens <= (attends_to_all ? n : budget));
      }
    }
  }
  CHECK(replayed > 100);
}

TEST_CASE("no policy of pages retains more attention than optimal does, or topk attends to",
          "[registry]") {
  const Unit unit = random_unit(kShape, 32);
  const int interval = GENERATE(1, 5, 20);
  const ReplayOptions options{
      .protocol = {.eviction_interval = interval, .paging = {.size = kPage}}};
  std::vector<Configuration> configurations;
  for (const int budget : {2 * kPage, 5 * kPage}) {
    for (const char* bound : {"topk", "optimal"}) configurations.push_back({Spec(bound), budget});
    for (const Variant& variant : all_variants()) {
      const Rules rules = variant.spec.rules({.budget = budget});
      if (is_refused(options.protocol, variant.spec) || rules.selects || !rules.bounded) continue;
      if (rules.keeps_evicted()) continue;  // steps attend to more than the budget
      if (rules.scope == Scope::head) configurations.push_back({variant.spec, budget});
    }
  }
  const auto outcomes = replay(unit, configurations, options, *make_cpu_backend());
  double optimum = 0;
  double most = 0;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const Spec& policy = configurations[i].policy;
    CAPTURE(policy.text(), configurations[i].budget, interval);
    const double recall = *outcomes[i].result.attention_recall;
    if (policy.text() == Spec("optimal").text()) optimum = recall;
    if (policy.text() == Spec("topk").text()) most = recall;
    if (policy.policy().name == "topk") continue;
    const Rules rules = policy.rules({.budget = configurations[i].budget});
    const bool holds_budget = rules.drop == 1 && (!rules.prunes || policy.is_oracle());
    if (interval == 1 || holds_budget) CHECK(recall <= optimum + 1e-6);
    CHECK(recall <= most + 1e-6);
  }
}

TEST_CASE("a page of one token is the ordinary cache", "[registry]") {
  const Unit unit = random_unit(kShape, 33);
  const auto at = [&](const Protocol& protocol) {
    return replay(unit, {{Spec("h2o"), 20}}, {.protocol = protocol, .trajectories = true},
                  *make_cpu_backend())
        .front()
        .trajectory.evicted_after;
  };
  CHECK(at({}) == at({.paging = {.size = 1}}));
  CHECK_THROWS_WITH(at({.paging = {.size = 16}}),
                    "budget 20: expected a multiple of --page 16 of at least 32 tokens; use 32");
}

}  // namespace kvsim::pages_test
