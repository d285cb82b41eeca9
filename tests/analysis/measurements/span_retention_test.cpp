// Which needle tells an answer, and what replays still hold of it.

#include <catch2/catch.hpp>
#include <set>

#include "analysis/asked_facts.h"
#include "sim/base/errors.h"
#include "tests/analysis/analysed.h"
#include "tests/support/units.h"

namespace kvsim::analysis_test::span_retention_test {

constexpr int kRiver = 1, kMountain = 2, kAsk = 3, kFive = 5, kSix = 6, kSeven = 7;

/// `_ river 5 _ mountain 5 6 _ _ ? mountain 5 6 _ ? river 5 _ ? river 7 _`, in ids.
Unit asking_unit(int group = 1) {
  Unit unit = test_support::random_unit({.tokens = 22, .group = group, .prompt_length = 9}, 3);
  unit.token_ids = {0,     kRiver, kFive,     0,      kMountain, kFive, kSix, 0,
                    0,     kAsk,   kMountain, kFive,  kSix,      0,     kAsk, kRiver,
                    kFive, 0,      kAsk,      kRiver, kSeven,    0};
  unit.spans = {{1, 3, "needle"},     {4, 7, "needle"},   {9, 11, "question"},  {11, 13, "answer"},
                {14, 16, "question"}, {16, 17, "answer"}, {18, 20, "question"}, {20, 21, "answer"}};
  return unit;
}

TEST_CASE("asked facts: a needle has the answer's tokens, and most of the question's",
          "[analysis]") {
  const std::vector<AskedFact> facts = asked_facts(asking_unit(), 0);
  REQUIRE(facts.size() == 3);
  CHECK(facts[0].steps == std::vector<int>{10, 11});
  CHECK(facts[0].needle == std::vector<int>{4, 5, 6});
  CHECK(facts[0].answer == std::vector<int>{5, 6});
  // Both needles say 5, but one of them of the mountain.
  CHECK(facts[1].steps == std::vector<int>{15});
  CHECK(facts[1].needle == std::vector<int>{1, 2});
  CHECK(facts[1].answer == std::vector<int>{2});
  CHECK(facts[2].needle.empty());  // no needle says 7
}

TEST_CASE("asked facts: without a question the latest needle counts, before the answer alone",
          "[analysis]") {
  Unit unit = asking_unit();
  std::erase_if(unit.spans, [](const Span& span) { return span.label == "question"; });
  CHECK(asked_facts(unit, 0)[1].needle == std::vector<int>{4, 5, 6});
  CHECK(asked_facts(unit, 0)[1].answer == std::vector<int>{5});
  unit.spans = {{16, 17, "needle"}, {18, 22, "needle"}, {16, 17, "answer"}};
  CHECK(asked_facts(unit, 0)[0].needle.empty());
  // A needle that says it twice tells it last.
  unit.spans = {{1, 7, "needle"}, {16, 17, "answer"}};
  CHECK(asked_facts(unit, 0)[0].answer == std::vector<int>{5});
}

TEST_CASE("asked facts: steps that are not measured ask for nothing", "[analysis]") {
  const Unit unit = asking_unit();
  CHECK(asked_facts(unit, 11)[0].steps == std::vector<int>{11});
  CHECK(asked_facts(unit, 12).size() == 2);
  CHECK(asked_facts(unit, 20).empty());
}

TEST_CASE("span-retention: a window holds what is no older than its budget", "[analysis]") {
  const Unit unit = asking_unit(2);
  // Step t attends to itself and the six tokens before it. Steps 10 and 11 look for tokens 4 to 6:
  // both have 5 and 6, the first has 4 as well. Step 15 looks for 1 and 2, which have left.
  const std::vector<Row> rows = analyse("span-retention", unit, {run_of("window", 6, unit)});
  REQUIRE(rows.size() == 4);
  for (const int head : {0, 1}) {
    const Row& needle = rows[head];
    const Row& answer = rows[2 + head];
    CHECK(needle.head == head);
    CHECK(needle.text("label") == "needle");
    CHECK(needle.integer("answers") == 3);
    CHECK(needle.integer("unpaired") == 1);
    CHECK(needle.integer("tokens") == 3 + 3 + 2);
    CHECK(needle.integer("held") == 3 + 2);
    CHECK(needle.real("share") == 5 / 8.0);
    CHECK(needle.real("complete") == 0);
    CHECK(answer.text("label") == "answer");
    CHECK(answer.integer("tokens") == 2 + 2 + 1);
    CHECK(answer.integer("held") == 4);
    CHECK(answer.real("complete") == 0.5);
  }
}

/// What `policy` holds of the needles, looked up step by step in what step t attends to.
std::int64_t held_by_lookup(const Unit& unit, const PolicyRun& run, Mode mode) {
  std::int64_t held = 0;
  const int first = mode == Mode::prefill ? unit.prompt_length : 0;
  for (const AskedFact& fact : asked_facts(unit, first)) {
    for (const int step : fact.steps) {
      std::set<int> attended;
      for (int token = 0; token <= step; ++token) {
        if (run.trajectory.evicted_after[token] >= step) attended.insert(token);
      }
      for (const int token : fact.needle) held += static_cast<std::int64_t>(attended.count(token));
    }
  }
  return held;
}

TEST_CASE("span-retention: what is held is what each step attends to", "[analysis]") {
  const Unit unit = asking_unit();
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  const std::string policy =
      GENERATE("h2o", "tova", "kcenter", "random", "full", "subgen:delta=9,t=2", "h2o+quant");
  CAPTURE(policy);
  const PolicyRun run = run_of(policy, 12, unit, mode);
  const Row needle = analyse("span-retention", unit, {run}, mode).at(0);
  CHECK(needle.integer("held") == held_by_lookup(unit, run, mode));
  CHECK(needle.integer("tokens") == 8);
  if (policy == "full") CHECK(needle.real("complete") == 1);
}

TEST_CASE("span-retention: a policy that selects holds what it attends to", "[analysis]") {
  // Step 15 attends most to token 2; steps 10 and 11 attend to all alike, and select token 0.
  Unit unit = test_support::unit_of_logits(22, [](int t, int j) { return t - j == 13 ? 9.0 : 0; });
  unit.token_ids = asking_unit().token_ids;
  unit.spans = asking_unit().spans;
  const Configuration configuration{.policy = Spec("topk"), .budget = 1};
  const ReplayOptions options{.trajectories = true, .selections = true};
  std::vector<Outcome> outcomes = replay(unit, {configuration}, options, *make_cpu_backend());
  const PolicyRun run{configuration.policy, 1, 1, std::move(outcomes.at(0).trajectory)};
  const std::vector<Row> rows = analyse("span-retention", unit, {run});
  CHECK(rows.at(1).text("label") == "answer");
  CHECK(rows.at(1).integer("held") == 1);
  CHECK(rows.at(1).real("complete") == 0.5);
}

TEST_CASE("span-retention: beyond a sliding window nothing is held", "[analysis]") {
  Unit unit = asking_unit();
  const PolicyRun run = run_of("full", 22, unit);
  CHECK(analyse("span-retention", unit, {run}).at(0).integer("held") == 8);
  unit.sliding_window = 7;
  CHECK(analyse("span-retention", unit, {run}).at(0).integer("held") == 5);
}

}  // namespace kvsim::analysis_test::span_retention_test
