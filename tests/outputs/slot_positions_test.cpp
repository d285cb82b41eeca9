#include <catch2/catch.hpp>
#include <cmath>

#include "sim/base/errors.h"
#include "tests/support/compare.h"
#include "tests/support/small_trace.h"
#include "tests/support/stepwise_reference.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/units.h"

namespace kvsim::slot_positions_test {

using namespace test_support;

/// A row of a matrix, rotated to `position`.
std::vector<double> rotated(std::vector<double> vector, double position, const Rope& rope) {
  const std::size_t pairs = rope.inverse_frequency.size();
  for (std::size_t i = 0; i < pairs; ++i) {
    double& x = rope.style == "half" ? vector[i] : vector[2 * i];
    double& y = rope.style == "half" ? vector[i + pairs] : vector[2 * i + 1];
    const double angle = position * rope.inverse_frequency[i];
    const double turned = x * std::cos(angle) - y * std::sin(angle);
    y = x * std::sin(angle) + y * std::cos(angle);
    x = turned;
  }
  return vector;
}

std::vector<double> unrotated(const Matrix& matrix, int token, const Rope& rope) {
  const auto row = matrix.row(token);
  return rotated({row.begin(), row.end()}, -token, rope);
}

/// Attention with every query and key at its position in the cache; the step's own token is last.
HeadStep attend_in_slots(const Unit& unit, const Unit& stored, int head, int t,
                         const std::vector<int>& tokens) {
  const double last = static_cast<double>(tokens.size()) - 1;
  const std::vector<double> query = rotated(
      unrotated(unit.query[static_cast<std::size_t>(head)], t, *unit.rope), last, *unit.rope);
  std::vector<double> logit;
  std::vector<int> slots;
  for (const int j : tokens) {
    slots.push_back(static_cast<int>(slots.size()));
    const std::vector<double> key =
        rotated(unrotated((j == t ? unit : stored).key, j, *unit.rope), slots.back(), *unit.rope);
    double product = 0;
    for (std::size_t c = 0; c < key.size(); ++c) product += query[c] * key[c];
    product *= double{unit.scale};
    const double cap = unit.logit_softcap.value_or(0);
    logit.push_back(cap > 0 ? cap * std::tanh(product / cap) : product);
  }
  HeadStep result{softmax(logit, slots, double{unit.sink(head)}), {}};
  result.output = cached_value(unit, stored, t, tokens, result.attention);
  return result;
}

Outcome replay_one(const Unit& unit, const std::string& spec, int budget,
                   Mode mode = Mode::stream) {
  const ReplayOptions options{.protocol = {.mode = mode}, .trajectories = true};
  return replay(unit, {{Spec(spec), budget}}, options, *make_cpu_backend()).front();
}

void check(const Unit& unit, const std::string& spec, const Keeping& keeping) {
  CAPTURE(spec, keeping.budget);
  const Outcome outcome = replay_one(unit, spec, keeping.budget, keeping.mode);
  const Quantization quantization{.bits = 3, .group = 4};
  const bool is_quantised = spec.find("+quant:bits=3,group=4") != std::string::npos;
  const Unit stored = is_quantised ? quantised(unit, quantization) : unit;
  const ReferenceUnit reference(unit);
  const auto attend = [&](int head, int t, const std::vector<int>& tokens) {
    return attend_in_slots(unit, stored, head, t, tokens);
  };
  const SteppedReplay expected =
      replay_steps(reference, keeping, attend, outcome.trajectory.evicted_after);
  CHECK(expected.record.differences(outcome) == "");
  CHECK(expected.followed <= 2);
  CHECK(outcome.result.bound_mean == std::nullopt);
  CHECK(outcome.result.bound_violations == std::nullopt);
}

void check_policies(const Unit& unit, Mode mode = Mode::stream) {
  check(unit, "sink:positions=slot", {.budget = 1, .first = 4, .mode = mode});
  check(unit, "sink:positions=slot", {.budget = 12, .first = 4, .mode = mode});
  check(unit, "sink:sinks=1,positions=slot", {.budget = 33, .first = 1, .mode = mode});
  check(unit, "h2o:positions=slot",
        {.budget = 12, .newest = 6, .by_attention = true, .mode = mode});
  check(unit, "sink:positions=slot+quant:bits=3,group=4", {.budget = 12, .first = 4, .mode = mode});
}

Unit rotated_unit(UnitShape shape, const std::string& style, std::vector<double> frequencies) {
  Unit unit = random_unit(shape, 71);
  unit.rope = Rope{std::move(frequencies), style, 1};
  return unit;
}

TEST_CASE("a cache that counts positions by slot sees its keys there", "[slots]") {
  const std::string style = GENERATE("half", "interleaved");
  CAPTURE(style);
  const UnitShape shape{.tokens = 65, .head_dim = 6, .value_dim = 3, .group = 2};
  check_policies(rotated_unit(shape, style, {1, 0.37, 0.01}));
  check_policies(rotated_unit(shape, style, {1, 0.1}));  // the last two numbers are not rotated
  check_policies(rotated_unit(shape, style, {0.5}));
  check_policies(rotated_unit(shape, style, {}));
}

TEST_CASE("logits in slots are soft-capped, too", "[slots]") {
  Unit unit = rotated_unit({.tokens = 65, .head_dim = 6, .spread = 6}, "half", {1, 0.1});
  unit.logit_softcap = 4.F;
  check_policies(unit);
}

TEST_CASE("a sink has no position and takes its share", "[slots]") {
  const float sink = GENERATE(1.F, 20.F);
  check_policies(rotated_unit({.tokens = 65, .head_dim = 6, .group = 2, .sink_logit = sink}, "half",
                              {1, 0.1}));
}

TEST_CASE("after a prompt slots count what is left of it", "[slots]") {
  const int prompt = GENERATE(1, 30, 64);
  check_policies(
      rotated_unit({.tokens = 65, .group = 2, .prompt_length = prompt}, "interleaved", {1, 0.1}),
      Mode::prefill);
}

TEST_CASE("a factor on rotated vectors stays on them", "[slots]") {
  Unit unit = rotated_unit({.tokens = 65, .head_dim = 6}, "half", {1, 0.1});
  const Outcome plain = replay_one(unit, "sink:positions=slot", 12);
  unit.rope->attention_factor = 0.7;  // the recorded keys include it
  CHECK(identical(plain.result, replay_one(unit, "sink:positions=slot", 12).result));
}

TEST_CASE("the slots of a window are its positions, shifted", "[slots]") {
  const Unit unit = rotated_unit({.tokens = 65, .head_dim = 6, .group = 2, .prompt_length = 20},
                                 "half", {1, 0.37});
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  const Outcome window = replay_one(unit, "window", 9, mode);
  const Outcome slots = replay_one(unit, "sink:sinks=0,positions=slot", 9, mode);
  CHECK(slots.trajectory.evicted_after == window.trajectory.evicted_after);
  CHECK((slots.trajectory.output_error - window.trajectory.output_error).isZero(1e-6F));
  CHECK(slots.result.attention_recall == Approx(*window.result.attention_recall).epsilon(1e-12));
  const Outcome sinks = replay_one(unit, "sink:sinks=1,positions=slot", 9, mode);
  const Outcome text = replay_one(unit, "sink:sinks=1", 9, mode);
  CHECK_FALSE((sinks.trajectory.output_error - text.trajectory.output_error).isZero(1e-2F));
}

TEST_CASE("with room for every token slots are positions in the text", "[slots]") {
  const Unit unit = rotated_unit({.tokens = 65, .group = 2}, "half", {1, 0.1});
  for (const int budget : {65, 66, 1000000000}) {
    CHECK(replay_one(unit, "sink:positions=slot", budget).result.output_error_max < 1e-6);
    CHECK(replay_one(unit, "h2o:positions=slot", budget).result.output_error_max < 1e-6);
  }
}

TEST_CASE("positions by slot need to know how keys were rotated", "[slots]") {
  Unit unit = random_unit({.tokens = 10}, 72);
  unit.rope.reset();
  CHECK_NOTHROW(replay_one(unit, "sink", 5));
  CHECK_THROWS_AS(replay_one(unit, "sink:positions=slot", 5), std::invalid_argument);
  const traces_test::TemporaryFolder folder;
  traces_test::write_small_trace(folder / "with.h5", traces_test::small_header());
  TraceHeader header = traces_test::small_header();
  header.shape.rope.reset();
  traces_test::write_small_trace(folder / "without.h5", header);
  CHECK_NOTHROW(plan_sweep(request(folder / "with.h5", "sink:positions=slot", {"2"})));
  CHECK_NOTHROW(plan_sweep(request(folder / "without.h5", "sink", {"2"})));
  for (const char* policy : {"sink:positions=slot", "h2o:positions=slot+quant"}) {
    const SweepRequest refused = request(folder / "without.h5", policy, {"2"});
    CHECK_THROWS_AS(plan_sweep(refused), DataError);
    CHECK_THROWS_WITH(plan_sweep(refused), Catch::Contains("/rope"));
  }
}

}  // namespace kvsim::slot_positions_test
