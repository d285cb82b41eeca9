#include "sim/cache/budget_stack.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "sim/cache/cache.h"

namespace kvsim::budget_stack_test {

using Tokens = std::vector<std::int32_t>;

constexpr int kTokens = 40;

// Scores of all tokens up to a step; few values, so that many tie.
std::vector<double> scores_at(int step) {
  std::mt19937 random(step);
  std::vector<double> scores(static_cast<std::size_t>(step) + 1);
  for (double& score : scores) score = static_cast<double>(random() % 8);
  return scores;
}

// One cache per budget, each with the same scores of its tokens.
class Caches {
 public:
  explicit Caches(const Rules& rules) {
    for (int budget = 1; budget <= kTokens; ++budget) caches_.emplace_back(kTokens, budget, rules);
  }

  void step(int step, bool evicts) {
    const std::vector<double> scores = scores_at(step);
    for (Cache& cache : caches_) {
      cache.admit(step);
      const auto tokens = cache.tokens();
      for (std::size_t i = 0; i < tokens.size(); ++i) cache.scores()[i] = scores[tokens[i]];
      if (evicts) cache.evict(cache.overflow(), step);
    }
  }

  Tokens tokens(int budget) const {
    const auto held = caches_[static_cast<std::size_t>(budget) - 1].tokens();
    return {held.begin(), held.end()};
  }

 private:
  std::vector<Cache> caches_;
};

void check_prefixes(const BudgetStack& stack, const Caches& caches, int step) {
  for (int budget = 1; budget <= kTokens; ++budget) {
    const auto order = stack.order();
    Tokens first(order.begin(), order.begin() + std::min(budget, step + 1));
    std::sort(first.begin(), first.end());
    CAPTURE(step, budget);
    REQUIRE(first == caches.tokens(budget));
  }
}

TEST_CASE("the first tokens of a stack are those of a cache of that budget", "[cache]") {
  const Rules rules{.protect_first = GENERATE(0, 2), .protect_newest = GENERATE(0, 1, 5)};
  Caches caches(rules);
  BudgetStack stack(kTokens, rules);
  for (int step = 0; step < kTokens; ++step) {
    caches.step(step, true);
    stack.push(scores_at(step));
    check_prefixes(stack, caches, step);
  }
}

TEST_CASE("a stack filled at the end of a prompt is that of caches cut at once", "[cache]") {
  const Rules rules{.protect_first = GENERATE(0, 2), .protect_newest = GENERATE(0, 5)};
  constexpr int kPrompt = 25;
  Caches caches(rules);
  BudgetStack stack(kTokens, rules);
  for (int step = 0; step < kPrompt; ++step) caches.step(step, step == kPrompt - 1);
  stack.fill(scores_at(kPrompt - 1));
  check_prefixes(stack, caches, kPrompt - 1);
}

}  // namespace kvsim::budget_stack_test
