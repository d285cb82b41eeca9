#include "oracle/auction/auction.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <tuple>

#include "oracle/assignment/assignment_plans.h"
#include "oracle/auction/auction_plan.h"
#include "oracle/auction/lowest_values.h"
#include "oracle/certificate.h"
#include "sim/base/errors.h"
#include "sim/base/interrupt.h"
#include "tests/oracle/small_attention.h"

namespace kvsim::auction_test {

using namespace oracle_test;

/// Rows as random_rows(), in which every 7th token gets much and every 3rd step sees nothing else.
Rows uneven_rows(int tokens, std::uint64_t seed) {
  Rows rows = random_rows(tokens, seed);
  for (std::size_t step = 0; step < rows.size(); ++step) {
    for (std::size_t token = 0; token <= step; ++token) {
      if (token % 7 == 0) rows[step][token] += 0.5F;
      if (step % 3 == 0 && token % 7 != 0) rows[step][token] = 0;
    }
  }
  return rows;
}

std::shared_ptr<const RemainingSums> costs_of(const StepRows& losses) {
  return std::make_shared<const RemainingSums>(losses);
}

CertifiedPlan by_auction(const EvictionSteps& steps, const RemainingSums& costs, int budget,
                         int recent) {
  const auto plan = auction_plan(Bidders(costs, steps, budget, recent), steps);
  REQUIRE(plan);
  return *plan;
}

void check_equals_assignment(const StepRows& losses, std::span<const int> budgets, int recent) {
  const auto costs = costs_of(losses);
  const Bidders any(*costs, losses, budgets[0], recent);
  const double total = any.total();
  const double scale = any.scale();
  std::vector<CacheSize> caches;
  for (const int budget : budgets) caches.push_back({budget, recent});
  const auto expected = assignment_plans(losses, costs, caches, true);
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    CAPTURE(losses.num_tokens(), losses.first_measured(), losses.protocol().name(), recent,
            budgets[i]);
    const CertifiedPlan plan = by_auction(losses, *costs, budgets[i], recent);
    CHECK(is_proven(expected[i], total));
    CHECK(plan.loss == Approx(expected[i].loss).epsilon(0).margin(1e-10 * total));
    CHECK(plan.bound <= plan.loss);
    const std::vector<int> evictions = losses.num_evictions(budgets[i]);
    std::vector<int> left(evictions.size(), 0);
    double lost = 0;
    for (int token = 0; token < losses.num_tokens(); ++token) {
      const int step = plan.schedule[static_cast<std::size_t>(token)];
      if (step == losses.num_tokens()) continue;
      ++left[static_cast<std::size_t>(step)];
      CHECK(token <= step - recent);
      lost += double{costs->row(step)[token]};
    }
    CHECK(left == evictions);
    CHECK(plan.loss == Approx(lost).epsilon(0).margin(1e-12 * total));
    REQUIRE(plan.slot_price.size() == expected[i].slot_price.size());
    for (std::size_t step = 0; step < plan.slot_price.size(); ++step) {
      CAPTURE(step);
      const double price = expected[i].slot_price[step];
      CHECK(plan.slot_price[step] == Approx(price).epsilon(1e-10).margin(1e-9 * scale));
    }
  }
}

TEST_CASE("an auction loses as little as the assignment at every protocol and budget",
          "[auction]") {
  const std::uint64_t seed = GENERATE(1U, 2U);
  const int tokens = seed == 1 ? 230 : 97;
  for (const int prompt : {0, tokens / 2}) {
    for (const int interval : {1, 3, 60, 70, kNeverEvict}) {
      if (interval == kNeverEvict && prompt == 0) continue;
      for (const Rows& rows : {random_rows(tokens, seed), uneven_rows(tokens, seed)}) {
        const FutureAttention losses(rows, prompt,
                                     {.mode = Mode::prefill, .eviction_interval = interval});
        const std::vector<int> budgets = {7, tokens / 10, tokens / 3, tokens - 1, tokens};
        check_equals_assignment(losses, budgets, 0);
        check_equals_assignment(losses, budgets, 3);
      }
    }
  }
}

TEST_CASE("an auction of the smallest budget loses as little as the assignment", "[auction]") {
  const FutureAttention losses(uneven_rows(200, 5));
  const std::vector<int> budgets = {1, 2, 200, 300};
  check_equals_assignment(losses, budgets, 0);
}

TEST_CASE("equal losses, and none at all, are planned", "[auction]") {
  const int tokens = 400;
  const float each = GENERATE(0.F, 0.25F);
  Rows rows;
  for (int step = 0; step < tokens; ++step) rows.emplace_back(step + 1, each);
  const std::vector<int> budgets = {5, 200};
  check_equals_assignment(FutureAttention(rows), budgets, 0);
}

TEST_CASE("an auction does not depend on the unit of the losses", "[auction]") {
  const int exponent = GENERATE(-40, 40);
  Rows rows = uneven_rows(150, 9);
  const FutureAttention losses(rows);
  for (auto& row : rows) {
    for (float& share : row) share = std::ldexp(share, exponent);
  }
  const FutureAttention scaled(rows);
  const CertifiedPlan plan = by_auction(losses, *costs_of(losses), 20, 0);
  const CertifiedPlan of_scaled = by_auction(scaled, *costs_of(scaled), 20, 0);
  CHECK(of_scaled.schedule == plan.schedule);
  CHECK(of_scaled.loss == std::ldexp(plan.loss, exponent));
}

TEST_CASE("slot prices of an auction prove its bound", "[auction]") {
  const int prompt = GENERATE(0, 60);
  const FutureAttention losses(random_rows(200, 3), prompt, {.mode = Mode::prefill});
  const auto costs = costs_of(losses);
  const CertifiedPlan plan = by_auction(losses, *costs, 30, 0);
  double total = 0;
  for (int step = losses.first_measured(); step < losses.num_tokens(); ++step) {
    for (const float share : losses.row(step)) total += double{share};
  }
  CHECK(*std::min_element(plan.slot_price.begin(), plan.slot_price.end()) >= 0);
  // What is retained plus what is lost is all there is.
  CHECK(dual_bound(losses, 30, plan.slot_price) == Approx(total - plan.loss).epsilon(1e-6));
}

TEST_CASE("an auction that may not finish proves nothing", "[auction]") {
  const FutureAttention losses(random_rows(120, 4));
  const RemainingSums costs(losses);
  const Bidders bidders(costs, losses, 12, 0);
  CHECK_FALSE(auction_plan(bidders, losses, {.corrections = 0}));
  CHECK_FALSE(auction_plan(bidders, losses, {.taken = 0, .taken_at_least = 0}));
  CHECK(auction_plan(bidders, losses));
}

TEST_CASE("the lowest values are found in order, the lower place first among equals", "[auction]") {
  constexpr float kNone = std::numeric_limits<float>::infinity();
  std::mt19937_64 bits(7);
  for (const std::size_t size : {kValuesTogether, 5 * kValuesTogether}) {
    for (const int range : {1, 6, 1000}) {
      for (const float limit : {0.F, 2.F, 500.F, kNone}) {
        std::vector<float> values(size);
        for (float& value : values) {
          const auto draw = static_cast<int>(bits() % static_cast<unsigned>(range + 1));
          value = draw == range ? kNone : static_cast<float>(draw);
        }
        std::vector<std::int32_t> places(kMostLowest);
        const Lowest lowest = find_lowest(values, limit, places.data());
        places.resize(lowest.count);
        CAPTURE(size, range, limit, values);
        const auto is_before = [&](std::int32_t a, std::int32_t b) {
          return std::tuple(values[a], a) < std::tuple(values[b], b);
        };
        std::vector<std::int32_t> sorted(size);
        std::iota(sorted.begin(), sorted.end(), 0);
        std::sort(sorted.begin(), sorted.end(), is_before);
        sorted.resize(lowest.count);
        CHECK(places == sorted);
        const auto are_at_most = [&](float most) {
          return static_cast<std::size_t>(std::count_if(
              values.begin(), values.end(), [&](float x) { return x <= most && x < kNone; }));
        };
        CHECK(lowest.limit <= limit);
        CHECK(lowest.count == std::min(are_at_most(lowest.limit), kMostLowest));
        CHECK(lowest.count >= std::min(are_at_most(limit), kMostLowest / 2));
        if (are_at_most(limit) <= kMostLowest) CHECK(lowest.limit == limit);
      }
    }
  }
}

TEST_CASE("few low values come before many equal ones, whichever are first", "[auction]") {
  const bool low_first = GENERATE(false, true);
  constexpr float kNone = std::numeric_limits<float>::infinity();
  std::vector<float> values(2 * kValuesTogether, kNone);
  std::fill_n(values.begin(), 43, .5F);
  const std::int32_t first_low = low_first ? 0 : 40;
  std::fill_n(values.begin() + first_low, 3, .1F);
  std::vector<std::int32_t> places(kMostLowest);
  const Lowest lowest = find_lowest(values, kNone, places.data());
  std::vector<std::int32_t> expected(kMostLowest);
  std::iota(expected.begin(), expected.begin() + 3, first_low);
  std::iota(expected.begin() + 3, expected.end(), low_first ? 3 : 0);
  CHECK(lowest.count == kMostLowest);
  CHECK(places == expected);
  CHECK(lowest.limit == .5F);
}

/// 300 rows in which every token gets .25, except for three that get nothing.
Rows equal_rows(int first_low) {
  Rows rows;
  for (int step = 0; step < 300; ++step) {
    rows.emplace_back(step + 1, .25F);
    for (int token = first_low; token < std::min(first_low + 3, step + 1); ++token) {
      rows.back()[static_cast<std::size_t>(token)] = 0;
    }
  }
  return rows;
}

TEST_CASE("a list holds few low values of a row of equal ones, wherever they are", "[auction]") {
  const int first_low = GENERATE(0, 250);
  const FutureAttention losses(equal_rows(first_low));
  const RemainingSums costs(losses);
  const Bidders bidders(costs, losses, 30, 0);
  const Assignment assignment(bidders);
  CandidateLists lists(bidders, assignment);
  const int bidder = bidders.stay() - 10;
  const Offer offer = lists.best_two(bidder, 0);
  CHECK(offer.token == first_low);
  CHECK(offer.value == 0);
  CHECK(offer.next_value == 0);
  const std::vector<int> budgets = {30, 150};
  check_equals_assignment(losses, budgets, 0);
}

TEST_CASE("a plan by auction does not depend on the other budgets", "[auction]") {
  const FutureAttention attention(random_rows(520, 11));
  const std::vector<Plan> together = plans("optimal", attention, {26, 104});
  const Plan alone = plans("optimal", attention, {104}).front();
  CHECK(together[1].schedule == alone.schedule);
  CHECK(together[1].slot_price == alone.slot_price);
  CHECK(together[1].proof->loss == alone.proof->loss);
  CHECK(together[1].proof->loss_bound == alone.proof->loss_bound);
}

TEST_CASE("a cache that hardly has a choice is planned by one pass or the other", "[auction]") {
  Rows rows;
  for (int step = 0; step < 512; ++step) rows.emplace_back(step + 1, 1 / (step + 1.F));
  const FutureAttention losses(rows, 0, {.eviction_interval = 16});
  const CacheSize cache{.budget = 4, .recent = 3};
  const auto expected = assignment_plans(losses, costs_of(losses), {&cache, 1}, true).front();
  CHECK_FALSE(auction_plan(Bidders(*costs_of(losses), losses, 4, 3), losses));
  const Plan plan = plans("optimal:recent=3", losses, {4}).front();
  CHECK(plan.proof->loss == Approx(expected.loss / 512).epsilon(1e-12));
}

TEST_CASE("losses that are not finite are refused before they are planned", "[auction]") {
  const int tokens = GENERATE(40, 520);
  const float bad =
      GENERATE(std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN());
  Rows rows = random_rows(tokens, 12);
  rows[30][7] = bad;
  CHECK_THROWS_AS(plans("optimal", FutureAttention(rows), {8}), DataError);
  CHECK_THROWS_WITH(plans("optimal", FutureAttention(rows), {8}),
                    Catch::Contains("KV head 2: optimal expected finite losses with cost=mass"));
}

TEST_CASE("an auction asks for interrupts", "[auction]") {
  const FutureAttention losses(random_rows(80, 4));
  const RemainingSums costs(losses);
  const Bidders bidders(costs, losses, 12, 0);
  const std::atomic<bool> interrupted = true;
  const InterruptScope scope(&interrupted);
  CHECK_THROWS_AS(auction_plan(bidders, losses), Interrupted);
}

}  // namespace kvsim::auction_test
