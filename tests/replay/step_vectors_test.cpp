// A step shows values and queries in addition to attention and keys, if the policy's rules ask.

#include <catch2/catch.hpp>

#include "sim/curve/curve.h"
#include "sim/replay/replay.h"
#include "tests/support/unit_parts.h"
#include "tests/support/units.h"

namespace kvsim::step_vectors_test {

using namespace test_support;

/// What the policy below asks for and should be shown, and what it was shown.
struct Watched {
  const std::vector<Unit>* units = nullptr;
  Rules rules;
  int steps = 0;
  int wrong = 0;
  Context context;
};

Watched watched;

bool equal(std::span<const float> vector, const Matrix& matrix, std::int32_t row) {
  return std::ranges::equal(
      vector,
      std::span<const float>(matrix.row(row).data(), static_cast<std::size_t>(matrix.cols())));
}

/// Compares every step with the first unit of a layer of the scope, and evicts the oldest token.
class Watcher final : public Policy {
 public:
  Watcher(const Params&, const Context& context) { watched.context = context; }

  Rules rules() const override { return watched.rules; }

  void update(const Step& step, std::span<double> scores) override {
    ++watched.steps;
    const bool is_right = std::ranges::any_of(*watched.units, [&](const Unit& unit) {
      return unit.name.kv_head == 0 && shows(step, unit);
    });
    watched.wrong += is_right ? 0 : 1;
    scores.back() = step.index;
  }

 private:
  static bool shows(const Step& step, const Unit& unit) {
    if (step.values.empty() == watched.rules.sees_values) return false;
    if (step.queries.empty() == watched.rules.sees_queries) return false;
    for (std::size_t i = 0; i < step.tokens.size(); ++i) {
      if (!equal(step.keys[i], unit.key, step.tokens[i])) return false;
      if (!step.values.empty() && !equal(step.values[i], unit.value, step.tokens[i])) return false;
    }
    if (step.queries.empty()) return true;
    if (step.queries.size() != unit.query.size()) return false;
    for (std::size_t head = 0; head < unit.query.size(); ++head) {
      if (!equal(step.queries[head], unit.query[head], step.index)) return false;
    }
    return true;
  }
};

Spec watcher() {
  static const PolicyInfo info{.name = "watcher",
                               .keeps = "",
                               .source = "",
                               .sees = "",
                               .differences = "",
                               .params = {},
                               .nests = always_nests,
                               .make = make_policy<Watcher>};
  return Spec(info);
}

const UnitShape kWatchedShape{.tokens = 70, .value_dim = 3, .group = 2, .prompt_length = 20};

void watch(const std::vector<Unit>& units, const Rules& rules) {
  watched = {.units = &units, .rules = rules};
}

TEST_CASE("a step shows values and queries as the trace holds them, if asked, in every scope") {
  std::vector<Unit> units = random_units(kWatchedShape, 81);
  const Scope scope = GENERATE(Scope::head, Scope::layer, Scope::model);
  const bool values = GENERATE(false, true);
  const bool queries = GENERATE(false, true);
  // A policy for a layer sees the vectors of its first head.
  if (scope == Scope::head) units.resize(1);
  if (scope == Scope::layer) units.resize(2);
  watch(units, {.sees_values = values, .sees_queries = queries, .scope = scope});
  std::vector<Unit> in_parts;
  for (const Unit& unit : units) in_parts.push_back(read_in_parts(unit, 32));
  const std::vector<std::pair<const std::vector<Unit>*, Protocol>> ways = {
      {&units, {}},
      {&units, {.reference = Reference::sample, .samples = 5}},
      {&units, {.reference = Reference::none}},
      {&in_parts, {.reference = Reference::none}}};
  for (const auto& [replayed, protocol] : ways) {
    watched.steps = 0;
    replay_together(*replayed, {{watcher(), 9}}, {.protocol = protocol}, *make_cpu_backend());
    CHECK(watched.steps == 70 * (scope == Scope::model ? 2 : 1));
    CHECK(watched.wrong == 0);
  }
}

TEST_CASE("a curve shows values and queries as the trace holds them, if asked") {
  const std::vector<Unit> units = {random_units(kWatchedShape, 82).front()};
  const bool asks = GENERATE(false, true);
  watch(units, {.sees_values = asks, .sees_queries = asks});
  curves_of(units.front(), std::vector{watcher()}, {}, *make_cpu_backend());
  CHECK(watched.steps == 70);
  CHECK(watched.wrong == 0);
}

TEST_CASE("a policy knows the scale of its logits and how keys were rotated") {
  std::vector<Unit> units = {random_units(kWatchedShape, 83).front()};
  units.front().rope->style = "interleaved";
  units.front().rope->attention_factor = 1.5;
  watch(units, {});
  replay(units.front(), {{watcher(), 9}}, {}, *make_cpu_backend());
  CHECK(watched.context.scale == units.front().scale);
  REQUIRE(watched.context.rotation);
  CHECK(std::ranges::equal(watched.context.rotation->inverse_frequency, std::vector{1.0, 0.1}));
  CHECK(watched.context.rotation->interleaved);
  CHECK(watched.context.rotation->attention_factor == 1.5);
}

}  // namespace kvsim::step_vectors_test
