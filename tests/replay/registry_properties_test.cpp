#include <catch2/catch.hpp>

#include "policies/registry/registry.h"
#include "sim/base/errors.h"
#include "tests/support/compare.h"
#include "tests/support/nightly.h"
#include "tests/support/spy.h"
#include "tests/support/units.h"
#include "tests/support/variants.h"

namespace kvsim::registry_properties_test {

using namespace test_support;

const UnitShape kShape{.tokens = 70, .group = 2, .prompt_length = 20};

Outcome replay_one(const Unit& unit, const Spec& policy, int budget, Mode mode = Mode::stream,
                   std::uint64_t seed = 1) {
  const ReplayOptions options{.protocol = {.mode = mode}, .seed = seed, .trajectories = true};
  return replay(unit, {{policy, budget}}, options_for(policy, options), *make_cpu_backend())
      .front();
}

/// Two layers of two heads, for coupled policies.
std::vector<Outcome> replay_model(const std::vector<Unit>& units, const Spec& policy, int budget,
                                  Mode mode = Mode::stream) {
  const ReplayOptions options{.protocol = {.mode = mode}, .seed = 1, .trajectories = true};
  return replay_together(units, {{policy, budget}}, options_for(policy, options),
                         *make_cpu_backend())
      .front();
}

bool same_results(const std::vector<Outcome>& a, const std::vector<Outcome>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return identical(x.result, y.result); });
}

bool is_bounded(const Spec& policy) { return policy.rules({.budget = 8}).bounded; }

/// Whether with a budget of the whole text the policy computes the full attention.
bool is_exact_with_room(const Spec& policy) {
  const Rules rules = policy.rules({.budget = 8});
  return !policy.is_estimator() && rules.is_exact() && (!rules.prunes || policy.is_oracle());
}

TEST_CASE("no policy keeps more than its budget after a step", "[registry]") {
  const std::vector<Unit> units = random_units(kShape, 21);
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  const int n = units.front().num_tokens();
  for (const Variant& variant : all_variants()) {
    if (!is_bounded(variant.spec)) continue;
    const ReplayOptions options = options_for(variant.spec, {.protocol = {.mode = mode}});
    const int first = options.protocol.mode == Mode::stream ? 0 : units.front().prompt_length - 1;
    // A cache that is cut once keeps all that comes after.
    const auto most = [&](int budget, int step) {
      return options.protocol.eviction_interval == kNeverEvict ? budget + step - first : budget;
    };
    const std::vector<int> budgets = is_watched() ? std::vector{2, 33} : std::vector{1, 2, 9, 33};
    for (const int budget : budgets) {
      CAPTURE(variant.spec.text(), budget);
      for (const Outcome& outcome : replay_model(units, variant.spec, budget, mode)) {
        const auto& left = outcome.trajectory.evicted_after;
        for (int t = first; t < n; ++t) {
          const auto kept = std::count_if(left.begin(), left.begin() + t + 1,
                                          [&](std::int32_t step) { return step > t; });
          REQUIRE(kept <= most(budget, t));
        }
        if (variant.spec.rules({.budget = budget}).keeps_evicted()) {
          CHECK(outcome.result.peak_tokens == n);  // all that steps attend to
          CHECK(outcome.result.attention_recall == 1);
          continue;
        }
        CHECK(outcome.result.peak_tokens <= most(budget, n - 1));
      }
    }
  }
}

TEST_CASE("a policy is shown exactly the tokens that are not yet evicted", "[registry]") {
  Unit unit = random_unit(kShape, 22);
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  switch (GENERATE(0, 1, 2, 3)) {
    case 1:
      unit.sliding_window = 12;
      break;
    case 2:
      unit.sink_logit = {0.F, 3.F};
      unit.attention_chunk = 30;
      break;
    case 3: {
      UnitShape shape = kShape;
      shape.selected = 7;
      unit = random_unit(shape, 22);
      break;
    }
    default:
      break;
  }
  const bool hides = unit.sliding_window || unit.attention_chunk || unit.selected;
  for (const Variant& variant : all_variants()) {
    if (variant.spec.is_estimator() || variant.spec.is_oracle()) continue;
    if (variant.spec.rules({}).joins_tokens() && hides) continue;  // refused
    const bool prunes = variant.spec.rules({}).prunes;
    const Mode replayed = options_for(variant.spec, {.protocol = {.mode = mode}}).protocol.mode;
    const int first_eviction = replayed == Mode::stream ? 0 : unit.prompt_length - 1;
    for (const int budget : is_watched() ? std::vector{9} : std::vector{1, 9, 33}) {
      CAPTURE(variant.spec.text(), budget);
      // As a sink does, a step that selects nothing of the cache leaves its tokens less than 1.
      Recording seen{.has_sink = !unit.sink_logit.empty() || unit.selected};
      const Outcome outcome = replay_one(unit, spied(variant.spec, seen), budget, mode);
      CHECK(seen.complaints == "");
      REQUIRE(seen.tokens.size() == static_cast<std::size_t>(unit.num_tokens()));
      for (int t = 0; t < unit.num_tokens(); ++t) {
        std::vector<std::int32_t> resident;
        for (int j = 0; j <= t; ++j) {
          const auto left = outcome.trajectory.evicted_after[static_cast<std::size_t>(j)];
          if (left >= t) resident.push_back(j);
        }
        const auto step = static_cast<std::size_t>(t);
        REQUIRE(seen.tokens[step] == resident);
        const auto leaving = std::count(outcome.trajectory.evicted_after.begin(),
                                        outcome.trajectory.evicted_after.end(), t);
        REQUIRE((prunes ? seen.overflow[step] <= leaving : seen.overflow[step] == leaving));
        if (t < first_eviction) REQUIRE(leaving == 0);
      }
    }
  }
}

TEST_CASE("with room for every token each policy equals full", "[registry]") {
  const Unit unit = random_unit(kShape, 23);
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  const ReplayOptions options{.protocol = {.mode = mode}, .trajectories = true};
  const auto full_like = [&](const Spec& policy) {
    return replay(unit, {{Spec("full"), 1}}, options_for(policy, options), *make_cpu_backend())
        .front();
  };
  const Outcome full = full_like(Spec("full"));
  CHECK(full.result.attention_recall == 1);
  CHECK(full.result.attention_loss == 0);
  CHECK(full.result.token_misses == 0);
  CHECK(full.result.output_error_max == 0);
  CHECK(full.result.bound_mean == 0);
  CHECK(full.result.evictions == 0);
  CHECK(full.result.peak_tokens == unit.num_tokens());
  for (const Variant& variant : all_variants()) {
    if (!is_exact_with_room(variant.spec)) continue;
    for (const int budget : {unit.num_tokens(), unit.num_tokens() + 1, 1000000000}) {
      CAPTURE(variant.spec.text(), budget);
      const Outcome outcome = replay_one(unit, variant.spec, budget, mode);
      CHECK(identical(outcome.result, full_like(variant.spec).result));
      CHECK(outcome.trajectory.evicted_after == full.trajectory.evicted_after);
      CHECK(outcome.trajectory.output_error.isZero(0));
    }
  }
}

/// Whether some value of the parameter other than its default gives some unit another result.
bool changes_some_result(const PolicyInfo& policy, const Param& param) {
  for (const Variant& variant : variants(policy)) {
    if (variant.param != param.name) continue;
    for (const unsigned seed : {24U, 25U, 26U, 27U}) {
      UnitShape shape = kShape;
      if (seed == 27U) shape.head_dim = 6;  // two of them are not rotated
      shape.gradient_samples = 1;
      shape.hidden = 6;
      shape.spans = {{40, 44, "answer"}};
      const std::vector<Unit> units = random_units(shape, seed);
      for (const int budget : {9, 33, 3, 60}) {
        if (!same_results(replay_model(units, Spec(policy), budget),
                          replay_model(units, variant.spec, budget))) {
          return true;
        }
      }
    }
  }
  return false;
}

TEST_CASE("every parameter of every policy changes some result", "[registry]") {
  for (const PolicyInfo& policy : policies()) {
    if (policy.reads_file()) continue;
    for (const Param& param : policy.params) {
      CAPTURE(policy.name, param.name);
      CHECK(changes_some_result(policy, param));
    }
  }
}

/// The settings of a combinator, defaults but for at most one choice, with which a parameter may be
/// read: one that others do not read is refused with them.
std::vector<std::string> bases(const CombinatorInfo& combinator, const Param& param) {
  std::vector<std::string> settings{""};
  for (const Param& other : combinator.params) {
    if (other.type != Param::Type::choice || other.name == param.name) continue;
    for (const std::string& value : alternatives(other)) {
      settings.push_back(other.name + "=" + value + ",");
    }
  }
  return settings;
}

/// The same of a combinator and some policy.
bool changes_some_result(const CombinatorInfo& combinator, const Param& param,
                         const std::vector<Unit>& units) {
  const auto spec_of = [&](const PolicyInfo& policy, const std::string& settings) {
    const std::string list = settings.substr(0, settings.find_last_not_of(',') + 1);
    return policy.name + "+" + combinator.name + (list.empty() ? "" : ":" + list);
  };
  const auto allowed = [&](const std::string& spec) {
    try {
      return Spec(spec).text() != "";
    } catch (const UsageError&) {
      return false;
    }
  };
  for (const std::string& base : bases(combinator, param)) {
    for (const std::string& value : alternatives(param)) {
      for (const PolicyInfo& policy : policies()) {
        if (policy.reads_file()) continue;
        const std::string plain = spec_of(policy, base);
        const std::string changed = spec_of(policy, base + param.name + "=" + value);
        if (!allowed(plain) || !allowed(changed)) continue;
        if (!same_results(replay_model(units, Spec(plain), 33),
                          replay_model(units, Spec(changed), 33))) {
          return true;
        }
      }
    }
  }
  return false;
}

TEST_CASE("every parameter of every combinator changes some result", "[registry]") {
  UnitShape shape = kShape;
  shape.hidden = 6;
  const std::vector<Unit> units = random_units(shape, 24);
  for (const CombinatorInfo& combinator : combinators()) {
    for (const Param& param : combinator.params) {
      CAPTURE(combinator.name, param.name);
      CHECK(changes_some_result(combinator, param, units));
    }
  }
}

TEST_CASE("no policy that evicts retains more attention than topk attends to", "[registry]") {
  const Unit unit = random_unit(kShape, 27);
  for (const int budget : {1, 9, 33}) {
    for (const Variant& variant : all_variants()) {
      if (!is_bounded(variant.spec)) continue;
      if (variant.spec.rules({.budget = budget}).keeps_evicted()) continue;  // it attends to all
      CAPTURE(variant.spec.text(), budget);
      const Outcome topk =
          replay(unit, {{Spec("topk"), budget}}, options_for(variant.spec, {}), *make_cpu_backend())
              .front();
      const Outcome outcome = replay_one(unit, variant.spec, budget);
      CHECK(outcome.result.attention_recall <= *topk.result.attention_recall + 1e-12);
    }
  }
}

TEST_CASE("the seed alone decides what a policy draws", "[registry]") {
  const Unit unit = random_unit(kShape, 25);
  Unit elsewhere = unit;
  elsewhere.name.kv_head += 1;
  int drawing = 0;
  for (const Variant& variant : all_variants()) {
    CAPTURE(variant.spec.text());
    const auto first = replay_one(unit, variant.spec, 20, Mode::stream, 1).trajectory.evicted_after;
    const auto again = replay_one(unit, variant.spec, 20, Mode::stream, 1).trajectory.evicted_after;
    const auto other = replay_one(unit, variant.spec, 20, Mode::stream, 2).trajectory.evicted_after;
    CHECK(first == again);
    if (first == other) continue;
    ++drawing;
    // Units with the same random draws would have dependent results.
    const auto moved = replay_one(elsewhere, variant.spec, 20, Mode::stream, 1);
    CHECK(moved.trajectory.evicted_after != first);
  }
  CHECK(drawing >= 1);
}

TEST_CASE("a replay does not depend on the other replays", "[registry]") {
  const Unit unit = random_unit(kShape, 26);
  std::vector<Configuration> configurations;
  for (const Variant& variant : all_variants()) {
    for (const int budget : {5, 40}) configurations.push_back({variant.spec, budget});
  }
  for (const ReplayGroup& group : by_protocol({.seed = 1}, configurations)) {
    const auto together = replay(unit, group.configurations, group.options, *make_cpu_backend());
    REQUIRE(together.size() == group.configurations.size());
    for (std::size_t i = 0; i < together.size(); ++i) {
      const Configuration& one = group.configurations[i];
      CAPTURE(one.policy.text());
      CHECK(agree(replay_one(unit, one.policy, one.budget).result, together[i].result));
      CHECK(together[i].trajectory.evicted_after.empty());
    }
  }
}

}  // namespace kvsim::registry_properties_test
