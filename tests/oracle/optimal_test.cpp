#include <catch2/catch.hpp>

#include "oracle/assignment/eviction_assignment.h"
#include "tests/oracle/small_attention.h"

namespace kvsim::optimal_test {

using namespace oracle_test;

constexpr double kRounding = 1e-5;  // costs are in single precision

TEST_CASE("optimal loses as little as the best of all eviction sequences", "[optimal]") {
  const int tokens = GENERATE(1, 2, 5, 8);
  for (int prompt = 0; prompt < tokens; ++prompt) {
    for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U}) {
      const FutureAttention attention(random_rows(tokens, seed), prompt, {.mode = Mode::prefill});
      for (int budget = 1; budget <= tokens + 1; ++budget) {
        for (int recent = 0; recent <= 3; ++recent) {
          CAPTURE(tokens, prompt, seed, budget, recent);
          const Plan plan =
              plans("optimal:recent=" + std::to_string(recent), attention, {budget}).front();
          const double best = least_loss(
              attention, [&](int) { return budget; }, std::min(recent, budget));
          CHECK(lost(attention, plan.schedule) == Approx(best).margin(kRounding));
          for (int step = attention.first_eviction(); step < tokens; ++step) {
            CHECK(kept_after(plan.schedule, step) == std::min(budget, step + 1));
          }
        }
      }
    }
  }
}

// After each step, what the protocol allows a cache of `budget` tokens to hold.
std::vector<int> capacities(int tokens, int prompt, int interval, int budget) {
  std::vector<int> capacities;
  int held = 0;
  for (int step = 0; step < tokens; ++step) {
    ++held;
    const bool is_prompt_end = step + 1 == prompt;
    const bool in_prompt = step + 1 < prompt;
    const bool evicts =
        is_prompt_end || (!in_prompt && interval != kNeverEvict && held > budget + interval - 1);
    if (evicts) held = std::min(held, budget);
    capacities.push_back(evicts ? budget : tokens);
  }
  return capacities;
}

TEST_CASE("optimal is the best of the sequences that evict when the protocol does", "[optimal]") {
  const int tokens = GENERATE(5, 8);
  for (int prompt = 0; prompt < tokens; ++prompt) {
    for (const int interval : {2, 3, kNeverEvict}) {
      if (interval == kNeverEvict && prompt == 0) continue;
      for (const std::uint64_t seed : {1U, 2U, 3U}) {
        const FutureAttention attention(random_rows(tokens, seed), prompt,
                                        {.mode = Mode::prefill, .eviction_interval = interval});
        for (int budget = 1; budget <= tokens; ++budget) {
          const std::vector<int> most = capacities(tokens, prompt, interval, budget);
          for (int recent = 0; recent <= 2; ++recent) {
            CAPTURE(tokens, prompt, interval, seed, budget, recent);
            const Plan plan =
                plans("optimal:recent=" + std::to_string(recent), attention, {budget}).front();
            const double best = least_loss(
                attention, [&](int step) { return most[static_cast<std::size_t>(step)]; },
                std::min(recent, budget));
            CHECK(lost(attention, plan.schedule) == Approx(best).margin(kRounding));
            for (int step = 0; step < tokens; ++step) {
              CHECK(kept_after(plan.schedule, step) <= most[static_cast<std::size_t>(step)]);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("a share of recent tokens is a share of each budget", "[optimal]") {
  const FutureAttention attention(random_rows(20, 6));
  const auto shares = plans("optimal:recent=50%", attention, {4, 10, 8});
  CHECK(shares[0].schedule == plans("optimal:recent=2", attention, {4})[0].schedule);
  CHECK(shares[1].schedule == plans("optimal:recent=5", attention, {10})[0].schedule);
  CHECK(shares[2].schedule == plans("optimal:recent=4", attention, {8})[0].schedule);
  const auto window = plans("optimal:recent=100%", attention, {4})[0].schedule;
  for (int token = 0; token < 20; ++token) {
    CHECK(window[static_cast<std::size_t>(token)] == std::min(token + 4, 20));
  }
}

TEST_CASE("one pass gives every budget what a pass of its own would", "[optimal]") {
  const FutureAttention attention(random_rows(60, 7), GENERATE(0, 25), {.mode = Mode::prefill});
  std::vector<int> budgets;
  for (int budget = 1; budget <= 60; ++budget) budgets.push_back(budget);
  const auto together = plans("optimal", attention, budgets);
  double previous = 1e9;
  for (const int budget : budgets) {
    const Plan& plan = together[static_cast<std::size_t>(budget) - 1];
    const double loss = lost(attention, plan.schedule);
    CHECK(loss <= previous + kRounding);  // the curve never falls as the budget grows
    previous = loss;
    CHECK(loss ==
          Approx(lost(attention, plans("optimal", attention, {budget})[0].schedule)).margin(1e-9));
  }
  CHECK(previous == 0);
}

TEST_CASE("the duals of the assignment prove that it is optimal", "[optimal]") {
  const int prompt = GENERATE(0, 17);
  const int recent = GENERATE(0, 4);
  const FutureAttention attention(random_rows(50, 8), prompt, {.mode = Mode::prefill});
  EvictionAssignment assignment(attention, recent);
  while (assignment.budget() > 5) {
    assignment.lower_budget();
    const Schedule schedule = assignment.schedule();
    double dual = 0;
    double loss = 0;
    for (int token = 0; token < 50; ++token) {
      const int step = schedule[static_cast<std::size_t>(token)];
      CHECK(assignment.token_price(token) >= 0);
      if (step == 50) {
        CHECK(assignment.token_price(token) == 0);
        continue;
      }
      // Feasible by the definition of a step's price; tight where a step evicts.
      CHECK(double{assignment.cost(token, step)} + assignment.token_price(token) ==
            Approx(assignment.step_price(step)).margin(1e-9));
      dual += assignment.step_price(step) - assignment.token_price(token);
      loss += double{assignment.cost(token, step)};
    }
    CHECK(assignment.loss() == Approx(loss).margin(1e-9));
    CHECK(dual == Approx(loss).margin(1e-9));
    CHECK(lost(attention, schedule) == Approx(loss).margin(kRounding));
  }
}

TEST_CASE("a slot price bounds what one more slot after its step is worth", "[optimal]") {
  int worth_something = 0;
  for (const int prompt : {0, 3}) {
    for (const std::uint64_t seed : {11U, 12U, 13U}) {
      const FutureAttention attention(random_rows(8, seed), prompt, {.mode = Mode::prefill});
      for (const int budget : {2, 3, 5}) {
        const Plan plan = plans("optimal", attention, {budget}).front();
        const double best = lost(attention, plan.schedule);
        for (int more = attention.first_eviction(); more < 8; ++more) {
          CAPTURE(prompt, seed, budget, more);
          const double with_more =
              least_loss(attention, [&](int step) { return budget + (step == more ? 1 : 0); });
          const double price = plan.slot_price[static_cast<std::size_t>(more)];
          // The worth of slots falls with their number, so a dual price lies at or above that of
          // one more, and at or below that of the one given up.
          CHECK(best - with_more <= price + kRounding);
          const double with_less =
              least_loss(attention, [&](int step) { return budget - (step == more ? 1 : 0); });
          CHECK(with_less - best >= price - kRounding);
          worth_something += price > 0.01;
        }
      }
    }
  }
  CHECK(worth_something > 10);
}

}  // namespace kvsim::optimal_test
