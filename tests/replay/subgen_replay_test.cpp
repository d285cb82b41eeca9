#include <catch2/catch.hpp>

#include "policies/parts/coins.h"
#include "sim/replay/replay.h"
#include "tests/support/subgen_algorithm.h"
#include "tests/support/units.h"
#include "traces/unit_seed.h"

namespace kvsim::subgen_replay_test {

using namespace test_support;

constexpr std::uint64_t kSeed = 5;

struct Asked {
  double delta;
  int s;
  int t;
  int budget;  // enough for Algorithm 1 with these parameters
};

Outcome replay_subgen(const Unit& unit, const Asked& asked) {
  const Spec spec("subgen:delta=" + std::to_string(asked.delta) + ",s=" + std::to_string(asked.s) +
                  ",t=" + std::to_string(asked.t));
  const ReplayOptions options{.seed = kSeed, .trajectories = true};
  return replay(unit, {{spec, asked.budget}}, options, *make_cpu_backend()).front();
}

Coin coin(const Unit& unit, const char* purpose) {
  return [coins = Coins(unit_seed(kSeed, unit.name), purpose)](int token, int slot, double p) {
    return coins.flip(token, static_cast<std::size_t>(slot), p);
  };
}

TEST_CASE("a replay of subgen is Algorithm 1, whatever s and t, also where they exceed the text",
          "[estimators]") {
  const Unit unit = random_unit({.tokens = 60, .head_dim = 5, .value_dim = 3, .group = 2}, 91);
  for (const Asked& asked : {Asked{2, 3, 2, 130},
                             {0, 7, 1, 134},
                             {1000, 1, 40, 43},
                             {2, 500, 3, 1240},
                             {2, 20, 300, 20'000},
                             {1.5, 3000, 200, 1'000'000},
                             {0, 1, 1000, 70'000}}) {
    CAPTURE(asked.delta, asked.s, asked.t, asked.budget);
    const Outcome outcome = replay_subgen(unit, asked);
    CHECK(outcome.amounts.at("s") == asked.s);
    CHECK(outcome.amounts.at("t") == asked.t);
    CHECK(outcome.amounts.at("far_keys") == 0);
    CHECK(outcome.result.peak_tokens <= asked.budget);
    for (int head = 0; head < 2; ++head) {
      const auto exact = exact_attention(unit, head);
      const auto estimate = subgen_algorithm(unit, head, asked.delta, asked.s, asked.t,
                                             coin(unit, "keys"), coin(unit, "values"));
      for (int step = 0; step < unit.num_tokens(); ++step) {
        const auto n = static_cast<std::size_t>(step);
        const double error = (estimate[n] - exact[n]).norm() / exact[n].norm();
        REQUIRE(outcome.trajectory.output_error(head, step) ==
                Approx(error).epsilon(1e-3).margin(1e-5));
      }
    }
  }
}

}  // namespace kvsim::subgen_replay_test
