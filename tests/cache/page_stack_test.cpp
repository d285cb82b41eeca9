#include "sim/cache/page_stack.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "sim/cache/cache.h"
#include "sim/protocol/budget.h"
#include "tests/support/nightly.h"

namespace kvsim::page_stack_test {

using Tokens = std::vector<std::int32_t>;

constexpr int kTokens = 50;

// Scores of all tokens up to a step; few values, so that many tie.
std::vector<double> scores_at(int step) {
  std::mt19937 random(step);
  std::vector<double> scores(static_cast<std::size_t>(step) + 1);
  for (double& score : scores) score = static_cast<double>(random() % 3);
  return scores;
}

/// One cache per budget, each with the same scores of its tokens.
struct Caches {
  Caches(const Rules& rules, const Paging& paging)
      : budgets(every_budget({.paging = paging}, kTokens)) {
    for (const int budget : budgets) caches.emplace_back(kTokens, budget, rules, paging);
  }

  void step(int step, bool evicts) {
    const std::vector<double> scores = scores_at(step);
    for (Cache& cache : caches) {
      cache.admit(step);
      const auto tokens = cache.tokens();
      for (std::size_t i = 0; i < tokens.size(); ++i) cache.scores()[i] = scores[tokens[i]];
      if (evicts) cache.evict(cache.overflow(), step);
    }
  }

  void check(const PageStack& stack) const {
    const auto order = stack.order();
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      const int held = std::min(budgets[i] - stack.first_place(), static_cast<int>(order.size()));
      Tokens first(order.begin(), order.begin() + held);
      std::sort(first.begin(), first.end());
      const auto tokens = caches[i].tokens();
      CAPTURE(order.size(), budgets[i]);
      REQUIRE(first == Tokens(tokens.begin(), tokens.end()));
    }
  }

  std::vector<int> budgets;
  std::vector<Cache> caches;
};

TEST_CASE("the first pages of a stack are those of a cache of that budget", "[cache]") {
  const Rules rules{.protect_first = GENERATE(0, 1, 6, 1000),
                    .protect_newest = GENERATE(0, 1, 2, 5, 17, 1000)};
  for (const Paging& paging : {Paging{1}, Paging{2}, Paging{4, PageScore::max},
                               Paging{5, PageScore::min}, Paging{40}, Paging{70}}) {
    Caches caches(rules, paging);
    PageStack stack(kTokens, rules, paging);
    CAPTURE(rules.protect_first, rules.protect_newest, paging.size);
    for (int step = 0; step < kTokens; ++step) {
      caches.step(step, true);
      stack.push(scores_at(step));
      caches.check(stack);
    }
  }
}

TEST_CASE("a stack of pages goes on after a prompt as caches that are cut at once", "[cache]") {
  const Rules rules{.protect_first = GENERATE(0, 1, 6, 1000),
                    .protect_newest = GENERATE(0, 1, 2, 3, 4, 5, 6, 9, 17, 1000)};
  const std::vector<int> prompts = test_support::sample_of<std::vector<int>>(
      {1, 4, 25, 49}, {1, 3, 4, 5, 24, 25, 26, 27, 28, 49});
  for (const int prompt : prompts) {
    for (const Paging& paging : {Paging{1}, Paging{2}, Paging{4, PageScore::max}, Paging{5}}) {
      Caches caches(rules, paging);
      PageStack stack(kTokens, rules, paging);
      CAPTURE(rules.protect_first, rules.protect_newest, paging.size, prompt);
      for (int step = 0; step < prompt; ++step) caches.step(step, step == prompt - 1);
      stack.fill(scores_at(prompt - 1));
      caches.check(stack);
      for (int step = prompt; step < kTokens; ++step) {
        caches.step(step, true);
        stack.push(scores_at(step));
        caches.check(stack);
      }
    }
  }
}

}  // namespace kvsim::page_stack_test
