#include "sim/cache/cache.h"

#include <catch2/catch.hpp>

namespace kvsim::cache_test {

using Tokens = std::vector<std::int32_t>;

Tokens tokens_of(const Cache& cache) { return {cache.tokens().begin(), cache.tokens().end()}; }

// A cache in which one token per score has arrived.
Cache filled(int budget, const Rules& rules, const std::vector<double>& scores) {
  const int n = static_cast<int>(scores.size());
  Cache cache(n, budget, rules);
  for (int t = 0; t < n; ++t) {
    cache.admit(t);
    cache.scores().back() = scores[static_cast<std::size_t>(t)];
  }
  return cache;
}

Tokens kept(int budget, const Rules& rules, const std::vector<double>& scores) {
  Cache cache = filled(budget, rules, scores);
  cache.evict(cache.overflow(), static_cast<int>(scores.size()) - 1);
  return tokens_of(cache);
}

TEST_CASE("a token arrives with score 0 and keeps the score that is set", "[cache]") {
  Cache cache(3, 3, {});
  cache.admit(0);
  CHECK(cache.scores()[0] == 0);
  cache.scores()[0] = 5;
  cache.admit(1);
  CHECK(cache.scores()[0] == 5);
  CHECK(cache.scores()[1] == 0);
}

TEST_CASE("the lowest score is evicted, the lower position first among equals", "[cache]") {
  CHECK(kept(3, {}, {2, 1, 3, 4}) == Tokens{0, 2, 3});
  CHECK(kept(3, {}, {1, 1, 1, 1}) == Tokens{1, 2, 3});
  CHECK(kept(3, {}, {2, 1, 1, 1}) == Tokens{0, 2, 3});
  CHECK(kept(3, {}, {4, 3, 2, 1}) == Tokens{0, 1, 2});
  CHECK(kept(3, {}, {0, -1, -2, 0}) == Tokens{0, 1, 3});
}

TEST_CASE("several tokens evicted at once have the lowest scores", "[cache]") {
  CHECK(kept(2, {}, {5, 1, 4, 2, 3}) == Tokens{0, 2});
  CHECK(kept(2, {}, {1, 1, 1, 1, 1}) == Tokens{3, 4});
  CHECK(kept(2, {}, {2, 1, 2, 1, 2}) == Tokens{2, 4});
  CHECK(kept(1, {}, {3, 1, 3, 2}) == Tokens{2});
}

TEST_CASE("evicting at once and one by one keep the same tokens for fixed scores", "[cache]") {
  const std::vector<double> scores = {3, 1, 2, 1, 3, 0, 2, 2, 1, 3};
  for (int budget = 1; budget <= 10; ++budget) {
    Cache one_by_one = filled(budget, {}, scores);
    while (one_by_one.overflow() > 0) one_by_one.evict(1, 9);
    CHECK(kept(budget, {}, scores) == tokens_of(one_by_one));
  }
}

TEST_CASE("scores stay with their tokens through evictions", "[cache]") {
  Cache cache = filled(2, {}, {5, 1, 4, 2, 3});
  cache.evict(3, 4);
  CHECK(cache.scores()[0] == 5);
  CHECK(cache.scores()[1] == 4);
  CHECK(cache.scores().size() == 2);
}

TEST_CASE("the cache records when each token was evicted", "[cache]") {
  Cache cache(4, 2, {});
  for (int t = 0; t < 4; ++t) {
    cache.admit(t);
    cache.scores().back() = t;
    cache.evict(cache.overflow(), t);
  }
  CHECK(cache.evicted_after() == Tokens{2, 3, 4, 4});
  Cache at_once = filled(1, {}, {0, 1, 2, 3});
  at_once.evict(3, 3);
  CHECK(at_once.evicted_after() == Tokens{3, 3, 3, 4});
}

TEST_CASE("protected tokens are not evicted", "[cache]") {
  CHECK(kept(4, {.protect_first = 2}, {0, 0, 5, 4, 3}) == Tokens{0, 1, 2, 3});
  CHECK(kept(4, {.protect_newest = 2}, {5, 4, 3, 0, 0}) == Tokens{0, 1, 3, 4});
  CHECK(kept(3, {.protect_first = 1, .protect_newest = 1}, {0, 5, 6, 7, 0}) == Tokens{0, 3, 4});
}

TEST_CASE("if protection exceeds the budget, the first tokens take precedence", "[cache]") {
  CHECK(kept(2, {.protect_first = 9}, {1, 2, 3, 4, 5}) == Tokens{0, 1});
  CHECK(kept(2, {.protect_newest = 9}, {5, 4, 3, 2, 1}) == Tokens{3, 4});
  CHECK(kept(3, {.protect_first = 2, .protect_newest = 2}, {1, 2, 9, 4, 3}) == Tokens{0, 1, 4});
  CHECK(kept(3, {.protect_first = 3, .protect_newest = 2}, {1, 2, 3, 9, 9}) == Tokens{0, 1, 2});
}

TEST_CASE("ties are the evictions that equal scores decide", "[cache]") {
  const auto ties = [](int budget, const Rules& rules, const std::vector<double>& scores) {
    Cache cache = filled(budget, rules, scores);
    cache.evict(cache.overflow(), static_cast<int>(scores.size()) - 1);
    return cache.num_ties();
  };
  CHECK(ties(2, {}, {1, 2, 3}) == 0);
  CHECK(ties(2, {}, {1, 1, 3}) == 1);
  CHECK(ties(2, {.protect_first = 1}, {1, 1, 3}) == 0);
  // Of three that leave, the first leaves in any case; the other two are two of three equals.
  CHECK(ties(2, {}, {0, 1, 1, 1, 3}) == 2);
  CHECK(ties(2, {}, {0, 1, 1, 2, 3}) == 0);
}

TEST_CASE("a cache between two evictions of an interval does not overflow", "[cache]") {
  CHECK(filled(2, {}, {1, 2, 3, 4}).overflow(4) == 0);
  CHECK(filled(2, {}, {1, 2, 3, 4, 5}).overflow(4) == 3);
  CHECK(filled(2, {}, {1, 2, 3, 4, 5}).overflow(4, 1) == 0);
}

TEST_CASE("the overflow is the number of tokens above the budget", "[cache]") {
  CHECK(filled(3, {}, {1, 2}).overflow() == 0);
  CHECK(filled(3, {}, {1, 2, 3}).overflow() == 0);
  CHECK(filled(3, {}, {1, 2, 3, 4, 5}).overflow() == 2);
  CHECK(filled(2000000000, {}, {1, 2, 3}).overflow() == 0);
  CHECK(filled(1, {.bounded = false}, {1, 2, 3}).overflow() == 0);
}

TEST_CASE("evicting nothing changes nothing", "[cache]") {
  Cache cache = filled(3, {.protect_first = 2, .protect_newest = 2}, {1});
  cache.evict(0, 0);
  CHECK(tokens_of(cache) == Tokens{0});
}

}  // namespace kvsim::cache_test
