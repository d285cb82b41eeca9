#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "oracle/assignment/distance_queue.h"
#include "oracle/assignment/eviction_assignment.h"
#include "tests/oracle/small_attention.h"

namespace kvsim::slot_price_test {

using namespace oracle_test;

constexpr double kRounding = 1e-5;  // costs are in single precision

double sum_from(const std::vector<double>& prices, int step) {
  double sum = 0;
  for (std::size_t i = static_cast<std::size_t>(step); i < prices.size(); ++i) sum += prices[i];
  return sum;
}

TEST_CASE("slot prices from a step on add up to what a slot more from there on saves",
          "[optimal]") {
  int worth_something = 0;
  for (const int prompt : {0, 1, 4, 7}) {
    for (const int recent : {0, 1, 2}) {
      for (const std::uint64_t seed : {61U, 62U, 63U}) {
        const FutureAttention attention(random_rows(8, seed), prompt, {.mode = Mode::prefill});
        EvictionAssignment assignment(attention, recent);
        while (assignment.budget() > std::max(1, recent)) {
          assignment.lower_budget();
          const int budget = assignment.budget();
          const std::vector<double> prices = assignment.slot_prices();
          for (int from = attention.first_eviction(); from < 8; ++from) {
            CAPTURE(prompt, recent, seed, budget, from);
            const double with_more = least_loss(
                attention, [&](int step) { return budget + (step >= from ? 1 : 0); }, recent);
            CHECK(sum_from(prices, from) ==
                  Approx(assignment.loss() - with_more).margin(kRounding));
            worth_something += prices[static_cast<std::size_t>(from)] > 0.01;
          }
        }
      }
    }
  }
  CHECK(worth_something > 100);
}

// More tokens than are looked at together, so that every part of a search takes
// part.
TEST_CASE("duals prove every budget of a longer text and slot prices give its curve", "[optimal]") {
  const int tokens = 150;
  const int prompt = GENERATE(0, 70);
  const int recent = GENERATE(0, 9);
  const FutureAttention attention(random_rows(tokens, 64), prompt, {.mode = Mode::prefill});
  EvictionAssignment assignment(attention, recent);
  double larger = 0;  // the loss at the budget before
  double saved = 0;   // by the budget before that
  while (assignment.budget() > std::max(1, recent)) {
    assignment.lower_budget();
    CAPTURE(prompt, recent, assignment.budget());
    const Schedule schedule = assignment.schedule();
    const std::vector<double> prices = assignment.slot_prices();
    std::vector<double> from(prices.size() + 1, 0);
    for (std::size_t step = prices.size(); step-- > 0;) from[step] = from[step + 1] + prices[step];
    double slackest = 0;
    double dual = 0;
    for (int token = 0; token < tokens; ++token) {
      const double price = assignment.token_price(token);
      slackest = std::min(slackest, price);
      const int leaves = schedule[static_cast<std::size_t>(token)];
      const int first = std::max({assignment.budget(), attention.first_eviction(), token + recent});
      for (int step = first; step < tokens; ++step) {
        const double reduced =
            double{assignment.cost(token, step)} + price - from[static_cast<std::size_t>(step)];
        slackest = std::min(slackest, step == leaves ? -std::abs(reduced) : reduced);
      }
      if (leaves == tokens) slackest = std::min(slackest, -price);
      if (leaves < tokens) dual += from[static_cast<std::size_t>(leaves)] - price;
    }
    CHECK(slackest > -1e-9);
    CHECK(dual == Approx(assignment.loss()).margin(1e-9));
    CHECK(*std::min_element(prices.begin(), prices.end()) >= 0);
    CHECK(from[0] == Approx(assignment.loss() - larger).margin(1e-9));
    CHECK(from[0] >= saved - 1e-9);  // a slot is worth less the more there are
    saved = from[0];
    larger = assignment.loss();
  }
}

TEST_CASE("a distance queue gives the nearest token first, the lower among equals", "[optimal]") {
  const int tokens = GENERATE(1, 64, 200, 600);
  std::mt19937_64 bits(static_cast<std::uint64_t>(tokens));
  DistanceQueue queue(tokens);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 3; ++round) {
    std::vector<double> distance(static_cast<std::size_t>(tokens), kInfinity);
    for (int turn = 0; turn < 3 * tokens; ++turn) {
      const auto token = bits() % static_cast<std::uint64_t>(tokens);
      const auto nearer = static_cast<double>(bits() % 40);
      if (nearer < distance[token]) {
        queue.lower(static_cast<int>(token), nearer);
        distance[token] = nearer;
      }
      const auto nearest = std::min_element(distance.begin(), distance.end());
      REQUIRE(queue.nearest() == *nearest);
      if (turn % 3 != 0 || *nearest == kInfinity) continue;
      REQUIRE(queue.take(*nearest) == nearest - distance.begin());
      *nearest = kInfinity;
    }
    queue.clear();
    CHECK(queue.nearest() == kInfinity);
  }
}

}  // namespace kvsim::slot_price_test
