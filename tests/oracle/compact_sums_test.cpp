#include "oracle/assignment/compact_sums.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "oracle/assignment/remaining_sums.h"
#include "policies/registry/spec.h"
#include "sim/base/interrupt.h"
#include "sim/kernels/candidate_kernels.h"
#include "tests/oracle/small_attention.h"
#include "tests/support/units.h"

namespace kvsim::compact_sums_test {

using namespace oracle_test;

/// Rows as random_rows(), of which every third is very small and one is very large.
StepRows rows_of(int tokens, int prompt, std::uint64_t seed) {
  Rows rows = random_rows(tokens, seed);
  for (std::size_t step = 0; step < rows.size(); ++step) {
    for (float& share : rows[step]) {
      if (step % 3 == 0) share = std::ldexp(share, -90);
      if (step == 20) share = std::ldexp(share, 60);
    }
  }
  return FutureAttention(rows, prompt);
}

TEST_CASE("sums in 16 bits are those in full, rounded down", "[compact]") {
  const int tokens = GENERATE(1, 2, 16, 17, 33, 90);
  const int prompt = GENERATE(0, 1, 30);
  const StepRows rows = rows_of(tokens, std::min(prompt, tokens), 4);
  const RemainingSums full(rows);
  const CompactSums compact(rows);
  for (int step = 0; step < tokens; ++step) {
    for (int token = 0; token <= step; ++token) {
      CAPTURE(tokens, prompt, step, token);
      CHECK(compact.below(step)[token] == upper_bits(full.row(step)[token]));
    }
  }
}

TEST_CASE("single sums and whole rows follow to the last bit, in any order", "[compact]") {
  const int tokens = GENERATE(1, 16, 17, 300);
  const int prompt = GENERATE(0, 1, 30);
  const StepRows rows = rows_of(tokens, std::min(prompt, tokens), 5);
  const RemainingSums full(rows);
  const CompactSums compact(rows);
  std::vector<int> steps;
  for (int step = tokens - 1; step >= 0; --step) steps.push_back(step);
  for (int i = 0; i < 50; ++i) steps.push_back(i * 37 % tokens);
  CompactRow row(compact);
  for (const int step : steps) {
    CAPTURE(tokens, prompt, step);
    const std::vector<float> expected(full.row(step), full.row(step) + step + 1);
    const std::span<const float> found = row.at(step);
    CHECK(std::vector<float>(found.begin(), found.end()) == expected);
    std::vector<std::int32_t> every(expected.size());
    for (std::size_t i = 0; i < every.size(); ++i) every[i] = static_cast<std::int32_t>(i);
    std::vector<float> sums(every.size());
    compact.at(step, every, sums.data());
    CHECK(sums == expected);
    CHECK(compact.at(step, step / 2) == expected[static_cast<std::size_t>(step / 2)]);
  }
}

TEST_CASE("sums in 16 bits ask for interrupts", "[compact]") {
  const std::atomic<bool> interrupted = true;
  const InterruptScope scope(&interrupted);
  CHECK_THROWS_AS(CompactSums(rows_of(20, 0, 1)), Interrupted);
}

struct Planned {
  std::string spec;
  int prompt;
  int interval;
};

TEST_CASE("optimal plans a long text alike with costs in 16 bits", "[compact]") {
  const Planned planned =
      GENERATE(Planned{"optimal", 0, 1}, Planned{"optimal:recent=5%", 0, 1},
               Planned{"optimal:recent=160", 0, 16}, Planned{"optimal:cost=value", 800, 64},
               Planned{"optimal:cost=predicted,weight=spans", 800, 16},
               Planned{"optimal", 800, kNeverEvict}, Planned{"optimal:recent=159", 800, 1});
  const Unit unit = test_support::random_unit({.tokens = 1600,
                                               .head_dim = 4,
                                               .value_dim = 3,
                                               .prompt_length = planned.prompt,
                                               .gradient_samples = 1,
                                               .spans = {{1590, 1596, "answer"}}},
                                              7);
  const auto backend = make_cpu_backend();
  const Spec oracle(planned.spec);
  const auto planner = oracle.policy().make_planner(oracle.params());
  const std::vector<int> budgets = {160, 640};
  const auto plans = [&](bool compact) {
    const Mode mode = planned.prompt == 0 ? Mode::stream : Mode::prefill;
    const Future future(unit, eviction_steps(unit, mode, planned.interval), *backend, nullptr, 1,
                        compact);
    return planner->plan({&future, 1}, {&budgets, 1}).front();
  };
  const std::vector<Plan> expected = plans(false);
  const std::vector<Plan> found = plans(true);
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    CAPTURE(planned.spec, budgets[i]);
    CHECK(found[i].schedule == expected[i].schedule);
    CHECK(found[i].slot_price == expected[i].slot_price);
    CHECK(found[i].proof->loss == expected[i].proof->loss);
    CHECK(found[i].proof->loss_bound == expected[i].proof->loss_bound);
  }
}

}  // namespace kvsim::compact_sums_test
