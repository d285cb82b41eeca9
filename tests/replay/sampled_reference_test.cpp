// --reference sample:N: what is measured at N steps, against all steps and against definitions.

#include <catch2/catch.hpp>
#include <cmath>

#include "sim/base/errors.h"
#include "sim/protocol/measured_steps.h"
#include "sim/replay/replay_checks.h"
#include "tests/support/compare.h"
#include "tests/support/reference_replay.h"
#include "tests/support/units.h"
#include "tests/support/variants.h"

namespace kvsim::sampled_reference_test {

using namespace test_support;
using Approx = Catch::Detail::Approx;

constexpr Protocol sample(int samples, Mode mode = Mode::stream) {
  return {.mode = mode, .reference = Reference::sample, .samples = samples};
}

std::vector<int> steps_of(int samples, int first, int num_tokens) {
  const MeasuredSteps steps(sample(samples, Mode::prefill), first, num_tokens);
  std::vector<int> measured;
  for (int step = 0; step < num_tokens; ++step) {
    if (steps.measures(step)) measured.push_back(step);
  }
  return measured;
}

TEST_CASE("sampled steps are as many as asked for, evenly spaced, the last included") {
  CHECK(steps_of(1, 0, 10) == std::vector<int>{9});
  CHECK(steps_of(5, 0, 10) == std::vector<int>{1, 3, 5, 7, 9});
  CHECK(steps_of(3, 0, 10) == std::vector<int>{3, 6, 9});
  CHECK(steps_of(2, 6, 10) == std::vector<int>{7, 9});
  for (const int all : {1, 2, 31, 64, 100, 1000}) {
    for (int samples = 1; samples <= all; samples = samples * 2 + 1) {
      const std::vector<int> steps = steps_of(samples, 7, 7 + all);
      CAPTURE(all, samples);
      REQUIRE(std::ssize(steps) == samples);
      CHECK(steps.back() == 7 + all - 1);
      for (int i = 0; i < samples; ++i) {
        const double even = 7.0 + (i + 1.0) * all / samples - 1;
        CHECK(std::abs(steps[i] - even) < 1);
      }
    }
  }
}

TEST_CASE("a sampled step is replayed alone, and no block reaches over one") {
  for (const int samples : {1, 3, 40, 100}) {
    const MeasuredSteps steps(sample(samples), 0, 100);
    for (int step = 0; step < 100;) {
      const int count = steps.together(step, 32);
      REQUIRE(count >= 1);
      REQUIRE(count <= 32);
      for (int later = step; later < step + count; ++later) {
        CHECK((count == 1 || !steps.measures(later)));
      }
      step += count;
    }
  }
}

bool can_sample(const Spec& policy) {
  try {
    check_protocol(options_for(policy, {.protocol = sample(1)}).protocol, policy);
  } catch (const UsageError&) {
    return false;
  }
  return true;
}

void check_all_steps(const std::vector<Unit>& units, Mode mode) {
  const ReplayOptions given{.protocol = {.mode = mode}, .seed = 5, .trajectories = true};
  std::vector<Configuration> configurations;
  for (const Variant& variant : all_variants()) {
    if (!can_sample(variant.spec)) continue;
    for (const int budget : {1, 9, 1000}) configurations.push_back({variant.spec, budget});
  }
  for (const ReplayGroup& group : by_protocol(given, configurations)) {
    ReplayOptions options = group.options;
    const Unit& first = units.front();
    const auto full = replay_together(units, group.configurations, options, *make_cpu_backend());
    options.protocol.reference = Reference::sample;
    options.protocol.samples =
        first.num_tokens() - options.protocol.first_measured(first.prompt_length);
    const auto sampled = replay_together(units, group.configurations, options, *make_cpu_backend());
    for (std::size_t i = 0; i < group.configurations.size(); ++i) {
      CAPTURE(group.configurations[i].policy.text(), group.configurations[i].budget);
      for (std::size_t unit = 0; unit < units.size(); ++unit) {
        CHECK(sampled[i][unit].trajectory.evicted_after == full[i][unit].trajectory.evicted_after);
        // Where nothing is lost, keys that were rotated to their own slot leave their rounding.
        CHECK(differences(sampled[i][unit].result, full[i][unit].result, 1e-5, 1e-6) == "");
      }
    }
  }
}

TEST_CASE("a sample of all steps measures what the full reference does") {
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  UnitShape shape{.tokens = 90, .value_dim = 3, .group = 2, .prompt_length = 30};
  shape.gradient_samples = 2;
  check_all_steps(random_units(shape, 91), mode);
}

TEST_CASE("a sample of all steps measures what the full reference does where tokens are selected") {
  const UnitShape shape{.tokens = 80, .group = 2, .prompt_length = 20, .selected = 6};
  check_all_steps(random_units(shape, 94), Mode::stream);
}

TEST_CASE("a sample of all steps measures what the full reference does in windows and soft caps") {
  std::vector<Unit> units = random_units({.tokens = 80, .spread = 3, .prompt_length = 20}, 92);
  for (Unit& unit : units) {
    unit.sliding_window = 25;
    unit.logit_softcap = 2.0F;
  }
  check_all_steps(units, Mode::stream);
}

TEST_CASE("a sample of all steps measures what the full reference does with sinks in chunks") {
  UnitShape shape{.tokens = 80, .group = 2, .prompt_length = 20};
  shape.sink_logit = 0.5F;
  shape.attention_chunk = 25;
  check_all_steps(random_units(shape, 97), Mode::stream);
}

/// The sums over query heads and some steps, straight from the definitions.
struct Sums {
  double recall = 0, error = 0, squared = 0, bound = 0, kl = 0;
  std::int64_t accesses = 0, misses = 0, pairs = 0;
};

Sums by_definition(const Unit& unit, const std::vector<std::int32_t>& evicted_after,
                   const std::vector<int>& steps) {
  Sums sums;
  for (int h = 0; h < unit.group_size(); ++h) {
    const ReferenceAttention full(unit, h);
    for (const int t : steps) {
      std::vector<int> held;
      double recall = 0;
      double longest = 0;
      for (int j = 0; j <= t; ++j) {
        longest = std::max(longest, unit.value.row(j).cast<double>().norm());
        const bool is_held = evicted_after[j] >= t;
        const bool is_pivotal = full.full[t][j] > 1.0 / (t + 1);
        if (is_held) held.push_back(j);
        if (is_held) recall += full.full[t][j];
        sums.accesses += is_pivotal;
        sums.misses += is_pivotal && !is_held;
      }
      const std::vector<double> cached = weighted_value(unit, held, softmax(full.logit[t], held));
      double squared = 0;
      for (std::size_t d = 0; d < cached.size(); ++d) {
        squared += std::pow(full.output[t][d] - cached[d], 2);
      }
      for (const std::vector<Matrix>& gradient : unit.output_score_grad) {
        double product = 0;
        for (std::size_t d = 0; d < cached.size(); ++d) {
          product += gradient[h](t, static_cast<int>(d)) * (cached[d] - full.output[t][d]);
        }
        sums.kl += product * product / 2 / std::ssize(unit.output_score_grad);
      }
      sums.recall += recall;
      sums.squared += squared;
      sums.error += std::sqrt(squared) / norm(full.output[t]);
      sums.bound += 2 * longest * (1 - recall) / norm(full.output[t]);
      ++sums.pairs;
    }
  }
  return sums;
}

TEST_CASE("what is measured at a few steps is what the definitions say of them") {
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  const int samples = GENERATE(1, 4, 9);
  const Unit unit = random_unit({.tokens = 300,
                                 .head_dim = 8,
                                 .value_dim = 5,
                                 .group = 2,
                                 .prompt_length = 60,
                                 .gradient_samples = 3},
                                93);
  const ReplayOptions options{.protocol = sample(samples, mode), .trajectories = true};
  const int first = mode == Mode::prefill ? 60 : 0;
  for (const char* spec : {"window", "h2o", "tova", "scissorhands", "knorm", "vatp"}) {
    CAPTURE(spec, samples);
    const Outcome found = replay(unit, {{Spec(spec), 20}}, options, *make_cpu_backend()).front();
    const Sums sums =
        by_definition(unit, found.trajectory.evicted_after, steps_of(samples, first, 300));
    const auto pairs = static_cast<double>(sums.pairs);
    const Result& row = found.result;
    CHECK(row.steps == samples);
    CHECK(*row.attention_recall == Approx(sums.recall / pairs).epsilon(1e-6));
    CHECK(*row.attention_loss == Approx(1 - sums.recall / pairs).epsilon(1e-6));
    CHECK(*row.token_accesses == sums.accesses);
    CHECK(*row.token_misses == sums.misses);
    CHECK(*row.output_error_mean == Approx(sums.error / pairs).epsilon(1e-5));
    CHECK(*row.output_error_sq == Approx(sums.squared / pairs).epsilon(1e-5));
    CHECK(*row.predicted_kl == Approx(sums.kl / samples).epsilon(1e-5));
    CHECK(*row.bound_mean == Approx(sums.bound / pairs).epsilon(1e-5));
    CHECK(*row.bound_violations == 0);
  }
}

std::optional<Interval> interval_of(const Outcome& outcome, const std::string& metric) {
  for (const SampledInterval& sampled : outcome.intervals) {
    if (sampled.metric == metric) return sampled.interval;
  }
  FAIL("no interval of " << metric);
  return {};
}

TEST_CASE("the interval of a mean is that of the bootstrap over the sampled steps") {
  const Unit unit = random_unit({.tokens = 200, .group = 2}, 94);
  const ReplayOptions options{.protocol = sample(12), .trajectories = true};
  const Outcome found = replay(unit, {{Spec("h2o"), 20}}, options, *make_cpu_backend()).front();
  const Matrix& recall = found.trajectory.attention_recall;
  std::vector<double> of_steps;
  std::vector<std::size_t> numbers;
  for (int step = 0; step < 200; ++step) {
    if (std::isnan(recall(0, step))) continue;
    numbers.push_back(of_steps.size());
    of_steps.push_back((recall(0, step) + recall(1, step)) / 2);
  }
  REQUIRE(of_steps.size() == 12);
  const Interval expected = *PairedBootstrap(numbers).mean(of_steps).interval;
  const Interval interval = *interval_of(found, "attention_recall");
  CHECK(interval.low == Approx(expected.low).epsilon(1e-6));
  CHECK(interval.high == Approx(expected.high).epsilon(1e-6));
  CHECK(interval.low < interval.high);
  for (const Column& column : result_columns()) {
    for (const SampledInterval& sampled : found.intervals) {
      if (sampled.metric != column.name) continue;
      CAPTURE(column.name);
      CHECK(sampled.interval->contains(std::get<double>(column.get(found.result))));
    }
  }
}

TEST_CASE(
    "every sampled mean has an interval, none from a single step, of no width where steps "
    "agree") {
  const Unit unit = random_unit({.tokens = 100, .gradient_samples = 2}, 95);
  const auto replayed = [&](int samples, int budget) {
    const ReplayOptions options{.protocol = sample(samples)};
    return replay(unit, {{Spec("window"), budget}}, options, *make_cpu_backend()).front();
  };
  std::string names;
  for (const SampledInterval& sampled : replayed(5, 9).intervals) names += sampled.metric + " ";
  CHECK(names ==
        "attention_recall attention_loss miss_rate output_error_mean output_error_sq "
        "predicted_kl bound_mean ");
  for (const SampledInterval& sampled : replayed(1, 9).intervals) CHECK_FALSE(sampled.interval);
  const Interval kept = *interval_of(replayed(5, 100), "attention_recall");
  CHECK((kept.low == 1 && kept.high == 1));
  const ReplayOptions full;
  CHECK(replay(unit, {{Spec("window"), 9}}, full, *make_cpu_backend()).front().intervals.empty());
}

TEST_CASE("a sample larger than the text, and policies that need every step, are refused") {
  const Unit unit = random_unit({.tokens = 50, .prompt_length = 20}, 96);
  const auto refused = [&](const char* spec, Mode mode, int samples, const std::string& part) {
    const ReplayOptions options{.protocol = sample(samples, mode)};
    CHECK_THROWS_WITH(replay(unit, {{Spec(spec), 9}}, options, *make_cpu_backend()),
                      Catch::StartsWith("--reference sample:") && Catch::Contains(part));
  };
  refused("window", Mode::stream, 51, "at most the 50 measured steps");
  refused("window", Mode::prefill, 31, "at most the 30 measured steps");
  refused("optimal", Mode::stream, 5, "cannot replay optimal");
  refused("topk", Mode::stream, 5, "all tokens");
  refused("subgen", Mode::stream, 5, "leave it out");
  refused("h2o:score=full", Mode::stream, 5, "a score other than full");
  refused("h2o+quant", Mode::stream, 5, "+quant");
  CHECK(can_sample(Spec("h2o:preset=streaming")));
}

TEST_CASE("samples that meet the eviction interval at the same phases are refused") {
  const auto check = [](int num_steps, int samples, int interval) {
    Protocol protocol = sample(samples);
    protocol.eviction_interval = interval;
    check_text(protocol, "text", num_steps, 0);
  };
  CHECK_THROWS_WITH(check(8192, 128, 64),
                    "--reference sample:128: in sequence 'text' samples 8192/128 = 64 steps apart "
                    "meet an --eviction-interval of 64 nearly always at the same phases; use "
                    "sample:129, or another interval");
  CHECK_THROWS_WITH(check(8193, 128, 64), Catch::Contains("8193/128 = 64.0078 steps apart"));
  CHECK_THROWS_AS(check(8191, 128, 64), UsageError);
  CHECK_THROWS_AS(check(8192, 512, 64), UsageError);  // 16 apart: four phases
  CHECK_THROWS_AS(check(8192, 384, 64), UsageError);  // 64 / 3 apart: three phases
  CHECK_THROWS_AS(check(1040, 16, 64), UsageError);   // 65 apart: the first 16 phases
  CHECK_THROWS_WITH(check(48, 2, 6), Catch::Contains("use sample:3,"));
  CHECK_NOTHROW(check(48, 3, 6));  // three phases of six, evenly
  CHECK_NOTHROW(check(8192, 129, 64));
  CHECK_NOTHROW(check(8192, 127, 64));
  CHECK_NOTHROW(check(8192, 8192, 64));  // all
  CHECK_NOTHROW(check(8192, 1, 64));     // its phase is one of all
  CHECK_NOTHROW(check(64, 8, 64));       // an interval as long as the text
  CHECK_NOTHROW(check(8192, 128, 1));
  CHECK_NOTHROW(check(8192, 128, kNeverEvict));
  const Unit unit = random_unit({.tokens = 64}, 98);
  const ReplayOptions options{
      .protocol = {.eviction_interval = 8, .reference = Reference::sample, .samples = 16}};
  CHECK_THROWS_AS(replay(unit, {{Spec("window"), 9}}, options, *make_cpu_backend()), UsageError);
}

}  // namespace kvsim::sampled_reference_test
