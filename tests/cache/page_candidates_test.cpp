#include "sim/cache/page_candidates.h"

#include <catch2/catch.hpp>
#include <limits>
#include <numeric>

#include "sim/cache/cache.h"

namespace kvsim::page_candidates_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A cache of `num_tokens` tokens, none of which has left, in pages of 4.
Cache cache_of(int num_tokens, int budget, const Rules& rules, const Paging& paging = {.size = 4}) {
  Cache cache(100, budget, rules, paging);
  for (int token = 0; token < num_tokens; ++token) {
    cache.admit(token);
    cache.scores().back() = token;
  }
  return cache;
}

std::vector<std::int32_t> tokens_of(const Cache& cache) {
  return {cache.tokens().begin(), cache.tokens().end()};
}

std::vector<std::size_t> range(std::size_t begin, std::size_t end) {
  std::vector<std::size_t> numbers(end - begin);
  std::iota(numbers.begin(), numbers.end(), begin);
  return numbers;
}

TEST_CASE("pages that are complete and hold no protected token may leave", "[cache]") {
  CHECK(cache_of(13, 12, {}).candidates() == range(0, 12));
  CHECK(cache_of(12, 8, {}).candidates() == range(0, 8));  // never that of the newest token
  CHECK(cache_of(3, 8, {}).candidates().empty());
  CHECK(cache_of(13, 12, {.protect_first = 1}).candidates() == range(4, 12));
  CHECK(cache_of(13, 12, {.protect_first = 5}).candidates() == range(8, 12));
  CHECK(cache_of(13, 12, {.protect_newest = 1}).candidates() == range(0, 12));
  CHECK(cache_of(13, 12, {.protect_newest = 2}).candidates() == range(0, 8));
}

TEST_CASE("protected tokens leave room for the page of the newest one", "[cache]") {
  // The first tokens take precedence over the newest.
  CHECK(cache_of(13, 12, {.protect_first = 12}).candidates() == range(8, 12));
  CHECK(cache_of(13, 12, {.protect_newest = 12}).candidates() == range(0, 4));
  CHECK(cache_of(13, 12, {.protect_first = 1, .protect_newest = 12}).candidates() == range(4, 8));
  CHECK(cache_of(9, 8, {.protect_first = 8, .protect_newest = 8}).candidates() == range(4, 8));
}

TEST_CASE("the page with the lowest mean, largest or smallest score leaves", "[cache]") {
  const std::vector<double> scores = {9, 1, 1, 1, 2, 2, 2, 3, 0, 8, 8, 8, 5};
  const auto kept = [&](PageScore score) {
    Cache cache = cache_of(13, 12, {}, {.size = 4, .score = score});
    std::copy(scores.begin(), scores.end(), cache.scores().begin());
    CHECK(cache.overflow() == 4);
    cache.evict(cache.overflow(), 12);
    return tokens_of(cache);
  };
  const std::vector<std::int32_t> without_second = {0, 1, 2, 3, 8, 9, 10, 11, 12};
  const std::vector<std::int32_t> without_third = {0, 1, 2, 3, 4, 5, 6, 7, 12};
  CHECK(kept(PageScore::mean) == without_second);  // 3, 2.25 and 6
  CHECK(kept(PageScore::max) == without_second);   // 9, 3 and 8
  CHECK(kept(PageScore::min) == without_third);    // 1, 2 and 0
}

TEST_CASE("of pages with equal scores the lower leaves, and its tokens are ties", "[cache]") {
  Cache cache = cache_of(13, 12, {});
  std::fill(cache.scores().begin(), cache.scores().end(), 1.0);
  cache.evict(cache.overflow(), 12);
  CHECK(tokens_of(cache) == std::vector<std::int32_t>{4, 5, 6, 7, 8, 9, 10, 11, 12});
  CHECK(cache.num_ties() == 4);
}

TEST_CASE("a drop takes the pages that fit in it, and at least what the budget asks for",
          "[cache]") {
  CHECK(cache_of(25, 24, {.drop = 3}).overflow() == 4);
  CHECK(cache_of(25, 24, {.drop = 7}).overflow() == 4);
  CHECK(cache_of(25, 24, {.drop = 11}).overflow() == 8);
  CHECK(cache_of(25, 24, {.drop = 100}).overflow() == 24);  // all candidates
  CHECK(cache_of(33, 24, {}).overflow() == 12);
  CHECK(cache_of(33, 24, {}).overflow(33) == 0);
}

TEST_CASE("a page is pruned when all its tokens are", "[cache]") {
  Cache cache = cache_of(13, 12, {.prunes = true});
  const auto scores = cache.scores();
  std::fill(scores.begin(), scores.begin() + 3, -kInfinity);       // of page 0 all but one
  std::fill(scores.begin() + 8, scores.begin() + 12, -kInfinity);  // page 2
  cache.evict(0, 12);
  CHECK(tokens_of(cache) == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 12});
  Cache bounded = cache_of(13, 12, {.prunes = true});
  std::fill(bounded.scores().begin(), bounded.scores().begin() + 1, -kInfinity);
  std::fill(bounded.scores().begin() + 4, bounded.scores().begin() + 8, -kInfinity);
  bounded.evict(bounded.overflow(), 12);  // what is pruned leaves first
  CHECK(tokens_of(bounded) == std::vector<std::int32_t>{0, 1, 2, 3, 8, 9, 10, 11, 12});
}

TEST_CASE("a token that must stay keeps its page", "[cache]") {
  Cache cache = cache_of(13, 12, {});
  cache.scores()[0] = kInfinity;
  cache.scores()[1] = -kInfinity;
  cache.evict(cache.overflow(), 12);
  CHECK(tokens_of(cache) == std::vector<std::int32_t>{0, 1, 2, 3, 8, 9, 10, 11, 12});
  // Where no page can be spared, the budget still holds.
  Cache full = cache_of(13, 12, {});
  std::fill(full.scores().begin(), full.scores().end(), kInfinity);
  full.evict(full.overflow(), 12);
  CHECK(tokens_of(full) == std::vector<std::int32_t>{4, 5, 6, 7, 8, 9, 10, 11, 12});
}

}  // namespace kvsim::page_candidates_test
