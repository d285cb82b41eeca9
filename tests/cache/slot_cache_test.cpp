#include "sim/cache/slot_cache.h"

#include <catch2/catch.hpp>
#include <random>

namespace kvsim::slot_cache_test {

constexpr int kTokens = 200;
constexpr int kSteps = 32;  // of a block

// What each step attends to each token; few values, so that many sums tie.
float attention(int step, std::int32_t token) {
  std::mt19937 random(1000 * step + token);
  return static_cast<float>(random() % 4) / 4;
}

// Accumulated attention, the rule of h2o, as a policy would write it.
void add_attention(Cache& cache, int step) {
  for (std::size_t i = 0; i < cache.tokens().size(); ++i) {
    cache.scores()[i] += attention(step, cache.tokens()[i]);
  }
}

std::vector<float> by_slot(const SlotCache& cache, int step) {
  std::vector<float> weight;
  for (const std::int32_t token : cache.tokens()) weight.push_back(attention(step, token));
  return weight;
}

TEST_CASE("a cache of slots evicts what a cache of tokens evicts", "[cache]") {
  const Paging paging{.size = GENERATE(1, 4)};
  const int budget = paging.is_by_token() ? GENERATE(1, 7, 60, kTokens) : GENERATE(8, 60, kTokens);
  const int held = budget + GENERATE(0, 5);
  const Rules rules{.protect_first = GENERATE(0, 3),
                    .protect_newest = GENERATE(0, 5),
                    .score = ScoreRule{.kind = ScoreRule::Kind::sum}};
  Cache tokens(kTokens, budget, rules, paging);
  SlotCache slots(kTokens, budget, rules, paging);
  for (int step = 0; step < kTokens; ++step) {
    if (step % kSteps == 0) slots.begin_block(step, std::min(kSteps, kTokens - step));
    tokens.admit(step);
    add_attention(tokens, step);
    tokens.evict(tokens.overflow(held), step);
    slots.admit();
    slots.score({step, static_cast<std::size_t>(slots.num_held())}, by_slot(slots, step), 1);
    slots.evict(step, held);
    CAPTURE(step);
    REQUIRE(slots.num_held() == static_cast<int>(tokens.tokens().size()));
  }
  CHECK(slots.evicted_after() == tokens.evicted_after());
  CHECK(slots.num_ties() == tokens.num_ties());
}

TEST_CASE("a cache of slots with scores of arrival evicts what a cache of tokens evicts",
          "[cache]") {
  const Paging paging{.size = GENERATE(1, 4)};
  const int budget = GENERATE(8, 60, 152);  // 152 slots are searched group by group
  const Rules rules{.protect_first = GENERATE(0, 3),
                    .protect_newest = GENERATE(0, 5),
                    .score = ScoreRule{.kind = ScoreRule::Kind::newest}};
  Cache tokens(kTokens, budget, rules, paging);
  SlotCache slots(kTokens, budget, rules, paging);
  for (int step = 0; step < kTokens; ++step) {
    if (step % kSteps == 0) slots.begin_block(step, std::min(kSteps, kTokens - step));
    tokens.admit(step);
    tokens.scores().back() = attention(step, step);
    tokens.evict(tokens.overflow(budget), step);
    slots.admit();
    slots.newest_score().front() = attention(step, step);
    slots.evict(step, budget);
  }
  CHECK(slots.evicted_after() == tokens.evicted_after());
  CHECK(slots.num_ties() == tokens.num_ties());
}

}  // namespace kvsim::slot_cache_test
