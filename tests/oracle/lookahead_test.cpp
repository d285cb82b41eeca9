#include <catch2/catch.hpp>
#include <random>

#include "policies/registry/spec.h"
#include "tests/oracle/lookahead_reference.h"
#include "tests/support/units.h"
#include "traces/trace.h"

namespace kvsim::lookahead_test {

using namespace oracle_test;
using test_support::random_unit;
using test_support::uniform_unit;

constexpr double kRounding = 1e-4;  // logits are in single precision

const std::vector<Protocol> kProtocols = {
    {},
    {.eviction_interval = 4},
    {.mode = Mode::prefill},
    {.mode = Mode::prefill, .eviction_interval = kNeverEvict}};

Matrix numbers(int rows, Eigen::Index cols, unsigned seed) {
  std::mt19937_64 bits(seed);
  return Matrix::NullaryExpr(rows, cols,
                             [&] { return static_cast<float>(bits() % 201) / 100 - 1; });
}

/// A layer of two units, each a group of two query heads, with gradients and W_O.
std::vector<Unit> random_layer(int tokens, unsigned seed) {
  std::vector<Unit> layer;
  for (const unsigned kv_head : {0U, 1U}) {
    layer.push_back(
        random_unit({.tokens = tokens, .value_dim = 5, .group = 2, .prompt_length = tokens / 2},
                    10 * seed + kv_head));
    Unit& unit = layer.back();
    unit.output_score_grad.resize(2);
    for (unsigned head = 0; head < 2; ++head) {
      unit.output_projection.push_back(numbers(5, 7, 100 * seed + 10 * kv_head + head));
      for (unsigned sample = 0; sample < 2; ++sample) {
        unit.output_score_grad[sample].push_back(
            numbers(tokens, 5, 1000 * seed + 100 * kv_head + 10 * head + sample));
      }
    }
  }
  return layer;
}

/// [unit][budget], the same budgets for each unit.
std::vector<std::vector<Plan>> plan(const std::string& spec, const std::vector<Unit>& layer,
                                    const Protocol& protocol, const std::vector<int>& budgets) {
  const auto backend = make_cpu_backend();
  std::vector<Future> futures;
  for (const Unit& unit : layer) {
    futures.emplace_back(unit, eviction_steps(unit, protocol), *backend);
  }
  const Spec oracle(spec);
  return oracle.policy()
      .make_planner(oracle.params())
      ->plan(futures, std::vector<std::vector<int>>(layer.size(), budgets));
}

void check_excess(const std::string& cost, int window, const std::vector<Unit>& layer,
                  const Protocol& protocol, const std::vector<int>& budgets) {
  const std::string spec = "lookahead:window=" + std::to_string(window) + ",cost=" + cost;
  const auto plans = plan(spec, layer, protocol, budgets);
  const EvictionSteps steps = eviction_steps(layer[0], protocol);
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    std::vector<Schedule> schedules;
    for (const std::vector<Plan>& unit : plans) schedules.push_back(unit[i].schedule);
    CAPTURE(spec, protocol.eviction_interval, steps.first_measured(), budgets[i]);
    CHECK(lookahead_excess(layer, steps, window, cost, schedules) < kRounding);
    for (const Schedule& schedule : schedules) {
      std::vector<int> evictions(schedule.size() + 1, 0);
      for (const int step : schedule) ++evictions[static_cast<std::size_t>(step)];
      evictions.pop_back();
      CHECK(evictions == steps.num_evictions(budgets[i]));
    }
  }
}

TEST_CASE("lookahead evicts what the next outputs change least without", "[lookahead]") {
  const std::string cost = GENERATE("error", "projected", "predicted");
  for (const Protocol& protocol : kProtocols) {
    check_excess(cost, 6, random_layer(44, 1), protocol, {1, 5, 11, 44, 50});
  }
  check_excess(cost, 1, random_layer(40, 2), kProtocols[0], {7});
  check_excess(cost, 100, random_layer(40, 3), kProtocols[0], {7});
}

TEST_CASE("lookahead sees soft caps and sliding windows", "[lookahead]") {
  std::vector<Unit> layer = random_layer(40, 4);
  for (Unit& unit : layer) {
    unit.logit_softcap = 1.5F;
    unit.sliding_window = 12;
  }
  for (const std::string cost : {"error", "projected", "predicted"}) {
    check_excess(cost, 5, layer, kProtocols[0], {6});
  }
}

TEST_CASE("lookahead sees what the model selects", "[lookahead]") {
  std::vector<Unit> layer = random_layer(40, 5);
  for (Unit& unit : layer) {
    unit.selected = random_unit({.tokens = 40, .selected = 6}, unit.query[0](0, 0) > 0).selected;
  }
  for (const std::string cost : {"error", "projected", "predicted"}) {
    check_excess(cost, 5, layer, kProtocols[0], {1, 6, 20});
    check_excess(cost, 5, layer, kProtocols[3], {4});
  }
}

TEST_CASE("lookahead leaves a learned sink its share, and sees chunks", "[lookahead]") {
  std::vector<Unit> layer = random_layer(40, 9);
  const float sink = GENERATE(0.F, 4.F);
  for (Unit& unit : layer) unit.sink_logit = {sink, sink - 2};
  layer[1].attention_chunk = 15;
  for (const std::string cost : {"error", "projected", "predicted"}) {
    check_excess(cost, 5, layer, kProtocols[0], {1, 6});
    check_excess(cost, 5, layer, kProtocols[3], {4});
  }
}

TEST_CASE("lookahead is exact where one token has all the weight", "[lookahead]") {
  // Logits of up to 40 apart: without the dominant token the others share out what rounds to 0.
  std::vector<Unit> layer = random_layer(40, 5);
  for (Unit& unit : layer) {
    for (Matrix& query : unit.query) query *= 8;
  }
  for (const std::string cost : {"error", "projected", "predicted"}) {
    check_excess(cost, 5, layer, kProtocols[0], {1, 6});
    check_excess(cost, 5, layer, kProtocols[3], {4});
  }
}

TEST_CASE("lookahead lets the lower token go among equals", "[lookahead]") {
  Unit unit = uniform_unit({.tokens = 10});
  unit.value.setOnes();
  for (const int window : {1, 4}) {
    const std::string spec = "lookahead:window=" + std::to_string(window);
    const Schedule schedule = plan(spec, {unit}, kProtocols[0], {4})[0][0].schedule;
    CHECK(schedule == Schedule{4, 5, 6, 7, 8, 9, 10, 10, 10, 10});
  }
}

TEST_CASE("lookahead keeps a sample where attention is spread out", "[lookahead]") {
  // Values of the first half are far from those of the second, and all tokens are attended to.
  Unit unit = uniform_unit({.tokens = 64});
  unit.value.topRows(32).array() += 4;
  const Schedule schedule = plan("lookahead", {unit}, kProtocols[0], {8})[0][0].schedule;
  const auto first_half = std::count(schedule.begin(), schedule.begin() + 32, 64);
  CHECK(first_half >= 3);
  CHECK(first_half <= 5);
}

TEST_CASE("lookahead plans several budgets as it plans each alone", "[lookahead]") {
  const std::vector<Unit> layer = random_layer(100, 6);
  for (const std::string cost : {"error", "projected", "predicted"}) {
    const std::string spec = "lookahead:cost=" + cost;
    const auto together = plan(spec, layer, kProtocols[0], {40, 5, 90});
    const auto alone = plan(spec, layer, kProtocols[0], {5});
    for (std::size_t unit = 0; unit < layer.size(); ++unit) {
      CHECK(together[unit][1].schedule == alone[unit][0].schedule);
    }
  }
}

TEST_CASE("a beam of all caches finds the least error of all eviction sequences", "[lookahead]") {
  Unit unit = random_unit({.tokens = 7, .group = 2}, 8);
  if (GENERATE(false, true)) unit.sink_logit = {1.F, 3.F};
  const EvictionSteps steps = eviction_steps(unit, {});
  const auto error_of = [&](const std::string& spec) {
    return squared_error(unit, steps, plan(spec, {unit}, kProtocols[0], {2})[0][0].schedule);
  };
  const double least = least_squared_error(unit, 2);
  CHECK(error_of("lookahead:window=2,beam=32") == Approx(least).epsilon(kRounding));
  CHECK(error_of("lookahead:window=2") >= least * (1 - kRounding));
}

Unit first_tokens(Unit unit, int tokens) {
  for (Matrix& query : unit.query) query = query.topRows(tokens).eval();
  unit.key = unit.key.topRows(tokens).eval();
  unit.value = unit.value.topRows(tokens).eval();
  return unit;
}

TEST_CASE("lookahead is close to the least error that any policy could have", "[lookahead]") {
  const Trace trace(std::filesystem::path(KVSIM_SOURCE_DIR) / "traces/sample/tiny-retriever.h5");
  double least = 0;
  double greedy = 0;
  double beam = 0;
  double recall = 0;
  for (const int layer : {0, 1, 2, 3}) {
    const Unit unit = first_tokens(trace.read_unit({trace.sequences()[0].name, layer, 1}), 20);
    const EvictionSteps steps = eviction_steps(unit, {});
    const auto error_of = [&](const std::string& spec) {
      return squared_error(unit, steps, plan(spec, {unit}, kProtocols[0], {3})[0][0].schedule);
    };
    least += least_squared_error(unit, 3);
    greedy += error_of("lookahead");
    beam += error_of("lookahead:window=64,beam=16");
    recall += error_of("optimal");
  }
  CAPTURE(greedy / least, beam / least, recall / least);
  CHECK(greedy >= least);
  CHECK(greedy < 1.2 * least);
  CHECK(beam < 1.02 * least);
  CHECK(recall > greedy);
}

TEST_CASE("lookahead says what a unit lacks that the cost needs", "[lookahead]") {
  const Unit unit = random_unit({.tokens = 20}, 3);
  CHECK_THROWS_WITH(plan("lookahead:cost=projected", {unit}, kProtocols[0], {4}),
                    "sequence random layer 1: expected the output projection that cost=projected "
                    "of lookahead needs, found none");
  CHECK_THROWS_WITH(plan("lookahead:cost=predicted", {unit}, kProtocols[0], {4}),
                    Catch::Contains("expected the gradients that cost=predicted of lookahead"));
}

TEST_CASE("a beam is refused where the layer's heads are planned together", "[lookahead]") {
  CHECK_THROWS_WITH(Spec("lookahead:cost=projected,beam=2").needs(),
                    Catch::Contains("lookahead: beam: expected 1 with cost=projected"));
}

}  // namespace kvsim::lookahead_test
