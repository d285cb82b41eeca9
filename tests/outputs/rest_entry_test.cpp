#include "sim/outputs/rest_entry.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/base/errors.h"
#include "sim/replay/replay_checks.h"
#include "tests/support/compare.h"
#include "tests/support/stepwise_reference.h"
#include "tests/support/units.h"

namespace kvsim::rest_entry_test {

using namespace test_support;

/// Attention to the tokens of a cache and to one entry for all others, by its definition.
class AttentionWithRest {
 public:
  explicit AttentionWithRest(const Unit& unit) : unit_(unit), reference_(unit) {}

  HeadStep attend(int head, int t, const std::vector<int>& tokens) const {
    const std::vector<int> evicted = others(t, tokens);
    std::vector<double> logit = reference_.heads[index(head)].logit[index(t)];
    std::vector<int> entries = tokens;
    if (!evicted.empty()) {
      entries.push_back(static_cast<int>(logit.size()));
      logit.push_back(logit_of_mean(head, t, evicted) +
                      std::log(static_cast<double>(evicted.size())));
    }
    std::vector<double> attention = softmax(logit, entries, reference_.heads[index(head)].sink);
    const double of_rest = evicted.empty() ? 0 : attention.back();
    attention.resize(tokens.size());
    std::vector<double> output = weighted_value(unit_, tokens, attention);
    const std::vector<double> rest = weighted_value(
        unit_, evicted,
        std::vector<double>(evicted.size(), of_rest / static_cast<double>(evicted.size())));
    for (std::size_t i = 0; i < output.size(); ++i) output[i] += rest[i];
    return {attention, output};
  }

  const ReferenceUnit& recorded() const { return reference_; }

 private:
  static std::size_t index(int number) { return static_cast<std::size_t>(number); }

  static std::vector<int> others(int t, const std::vector<int>& tokens) {
    std::vector<int> evicted;
    for (int j = 0; j <= t; ++j) {
      if (std::find(tokens.begin(), tokens.end(), j) == tokens.end()) evicted.push_back(j);
    }
    return evicted;
  }

  // The soft-capped logit of the mean of their keys.
  double logit_of_mean(int head, int t, const std::vector<int>& evicted) const {
    double logit = 0;
    for (Eigen::Index d = 0; d < unit_.key.cols(); ++d) {
      double mean = 0;
      for (const int j : evicted) mean += double{unit_.key(j, d)};
      mean /= static_cast<double>(evicted.size());
      logit += double{unit_.query[index(head)](t, d)} * mean;
    }
    logit *= double{unit_.scale};
    const auto cap = unit_.logit_softcap;
    return cap ? *cap * std::tanh(logit / *cap) : logit;
  }

  const Unit& unit_;
  ReferenceUnit reference_;
};

Outcome replay_one(const Unit& unit, const std::string& spec, int budget,
                   const ReplayOptions& options = {.trajectories = true}) {
  return replay(unit, {{Spec(spec), budget}}, options, *make_cpu_backend()).front();
}

// `keeping` has the tokens that are left to the policy: one less than `budget`.
void check(const Unit& unit, const std::string& policy, int budget, Keeping keeping,
           Mode mode = Mode::stream) {
  CAPTURE(policy, budget, unit.num_tokens(), Protocol{.mode = mode}.name());
  const Outcome outcome = replay_one(unit, policy + "+rest", budget,
                                     {.protocol = {.mode = mode}, .trajectories = true});
  const AttentionWithRest with_rest(unit);
  keeping.budget = budget - 1;
  keeping.mode = mode;
  const auto attend = [&](int head, int t, const std::vector<int>& tokens) {
    return with_rest.attend(head, t, tokens);
  };
  const SteppedReplay expected =
      replay_steps(with_rest.recorded(), keeping, attend, outcome.trajectory.evicted_after);
  CHECK(expected.record.differences(outcome) == "");
  CHECK(expected.followed <= 2);
  CHECK(outcome.result.bound_mean == std::nullopt);
  CHECK(outcome.result.bound_violations == std::nullopt);
}

void check_policies(const Unit& unit, Mode mode = Mode::stream) {
  check(unit, "window", 1, {}, mode);
  check(unit, "window", 8, {}, mode);
  check(unit, "h2o", 2, {.newest = 1, .by_attention = true}, mode);
  check(unit, "h2o", 17, {.newest = 8, .by_attention = true}, mode);
  check(unit, "h2o+protect:first=2,last=9", 21, {.first = 2, .newest = 10, .by_attention = true},
        mode);
  check(unit, "window", 500, {}, mode);
}

TEST_CASE("a step attends to the tokens held and to one entry for all others", "[rest]") {
  const UnitShape shape =
      GENERATE(UnitShape{.tokens = 1}, UnitShape{.tokens = 2, .group = 2},
               UnitShape{.tokens = 65, .head_dim = 5, .value_dim = 3, .group = 3},
               UnitShape{.tokens = 130, .head_dim = 16, .value_dim = 9, .group = 2});
  check_policies(random_unit(shape, 71));
}

TEST_CASE("the logit of the entry is soft-capped", "[rest]") {
  Unit unit = random_unit({.tokens = 65, .head_dim = 8, .group = 2, .spread = 6}, 72);
  unit.logit_softcap = 4.F;
  check_policies(unit);
}

TEST_CASE("a sink takes its share in addition to the entry", "[rest]") {
  const float sink = GENERATE(-5.F, 2.F, 30.F);
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  check_policies(
      random_unit({.tokens = 65, .group = 2, .prompt_length = 20, .sink_logit = sink}, 74), mode);
}

TEST_CASE("the entry of a prompt's evicted tokens begins after the prompt", "[rest]") {
  const int prompt = GENERATE(1, 2, 30, 64);
  const Unit unit = random_unit({.tokens = 65, .group = 2, .prompt_length = prompt}, 73);
  check_policies(unit, Mode::prefill);
}

TEST_CASE("the entry reproduces a head that attends to all tokens equally", "[rest]") {
  const Unit unit = uniform_unit({.tokens = 90, .group = 2});
  for (const char* policy : {"window", "random", "h2o", "knorm", "tova:scope=layer"}) {
    for (const int budget : {1, 2, 9, 40}) {
      CAPTURE(policy, budget);
      CHECK(*replay_one(unit, std::string(policy) + "+rest", budget).result.output_error_max <
            1e-6);
      CHECK(*replay_one(unit, policy, budget).result.output_error_max > 0.1);
    }
  }
}

TEST_CASE("an entry outweighs tokens however large its logit is", "[rest]") {
  // The evicted token has all of the attention, 300 above the others.
  const Unit unit = unit_of_logits(6, [](int, int j) { return j == 0 ? 300 : 0; });
  const Outcome outcome = replay_one(unit, "window+rest", 3);
  CHECK(outcome.trajectory.output_error.col(3).isZero(1e-5F));
}

TEST_CASE("the entry takes one token of the budget once something is evicted", "[rest]") {
  Unit unit = random_unit({.tokens = 30, .head_dim = 5, .value_dim = 3, .prompt_length = 12}, 74);
  unit.key_bytes = 2;
  const auto check_use = [&](int budget, const ReplayOptions& options, int most) {
    const Result result = replay_one(unit, "window+rest", budget, options).result;
    CAPTURE(budget, options.protocol.name());
    CHECK(result.peak_tokens == most);
    CHECK(result.cache_bytes == most * (5 * 2 + 3 * 4));
  };
  check_use(7, {}, 7);
  check_use(1, {}, 1);
  check_use(30, {}, 30);
  check_use(31, {}, 30);
  check_use(7, {.protocol = {.mode = Mode::prefill}}, 7);
  check_use(7, {.protocol = {.mode = Mode::prefill, .eviction_interval = 4}}, 10);
  check_use(7, {.protocol = {.mode = Mode::prefill, .eviction_interval = kNeverEvict}}, 7 + 18);
}

TEST_CASE("with room for every token the entry changes nothing", "[rest]") {
  const Unit unit = random_unit({.tokens = 40, .group = 2}, 75);
  const Outcome outcome = replay_one(unit, "h2o+rest", 41);
  CHECK(outcome.result.evictions == 0);
  CHECK(*outcome.result.output_error_max < 1e-6);
}

TEST_CASE("an oracle plans for what the entry leaves it", "[rest]") {
  const Unit unit = random_unit({.tokens = 50}, 76);
  CHECK(replay_one(unit, "optimal+rest", 9).trajectory.evicted_after ==
        replay_one(unit, "optimal", 8).trajectory.evicted_after);
  CHECK_NOTHROW(replay_one(unit, "optimal+rest", 1));
}

TEST_CASE("heads of a layer have an entry each", "[rest]") {
  const std::vector<Unit> units = random_units({.tokens = 50, .group = 2}, 77);
  const std::vector<Unit> layer(units.begin(), units.begin() + 2);
  const ReplayOptions options{.trajectories = true};
  const auto outcomes =
      replay_together(layer, {{Spec("window+rest"), 9}}, options, *make_cpu_backend()).front();
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(identical(outcomes[i].result, replay_one(layer[i], "window+rest", 9).result));
  }
  const auto shared =
      replay_together(layer, {{Spec("tova:scope=layer+rest"), 9}}, options, *make_cpu_backend())
          .front();
  CHECK(shared[0].trajectory.evicted_after == shared[1].trajectory.evicted_after);
  for (std::size_t i = 0; i < 2; ++i) {
    const AttentionWithRest with_rest(layer[i]);
    const auto& left = shared[i].trajectory.evicted_after;
    for (int t = 0; t < 50; t += 7) {
      std::vector<int> tokens;
      for (int j = 0; j <= t; ++j) {
        if (left[static_cast<std::size_t>(j)] >= t) tokens.push_back(j);
      }
      const std::vector<double> output = with_rest.attend(1, t, tokens).output;
      const auto& full = with_rest.recorded().heads[1].output[static_cast<std::size_t>(t)];
      std::vector<double> difference = output;
      for (std::size_t d = 0; d < full.size(); ++d) difference[d] -= full[d];
      CHECK(shared[i].trajectory.output_error(1, t) ==
            Approx(norm(difference) / norm(full)).margin(1e-5));
    }
  }
}

TEST_CASE("a layer with a sliding window has no entry for evicted tokens", "[rest]") {
  Unit unit = random_unit({.tokens = 30}, 78);
  unit.sliding_window = 5;
  CHECK_THROWS_WITH(replay_one(unit, "window+rest", 4),
                    Catch::Contains("sliding window") && Catch::Contains("leave +rest out"));
  CHECK_THROWS_AS(replay_one(unit, "window+rest", 4), UsageError);
}

TEST_CASE("a layer that selects tokens has no entry for evicted ones", "[rest]") {
  const Unit unit = random_unit({.tokens = 30, .selected = 5}, 79);
  CHECK_THROWS_WITH(replay_one(unit, "window+rest", 4),
                    Catch::Contains("found one that selects; leave +rest out"));
}

}  // namespace kvsim::rest_entry_test
