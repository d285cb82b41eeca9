#include "sim/cache/common_tokens.h"

#include <catch2/catch.hpp>
#include <random>

namespace kvsim::common_tokens_test {

constexpr int kTokens = 150;

TokenSet set_of(std::int32_t begin, std::int32_t end) {
  TokenSet set(kTokens);
  set.insert_range(begin, end);
  return set;
}

int size_of(const TokenSet& set) { return count_common(set.words(), set.words()); }

TEST_CASE("the largest share of two sets is taken first", "[cache]") {
  std::vector<TokenSet> sets{set_of(0, 100), set_of(40, 140), set_of(60, 150)};
  const auto common = take_common_tokens(sets, 10, kTokens);
  REQUIRE(common.size() == 2);
  CHECK(common[0].first == 1);  // 80 tokens, 60 .. 139
  CHECK(common[0].second == 2);
  CHECK(size_of(common[0].tokens) == 80);
  CHECK(common[1].first == 0);  // of 60, 40 have left the second set
  CHECK(common[1].second == 1);
  CHECK(size_of(common[1].tokens) == 20);
  CHECK(size_of(sets[0]) == 80);
  CHECK(size_of(sets[1]) == 0);
  CHECK(size_of(sets[2]) == 10);
}

TEST_CASE("small shares stay, and tokens from num_tokens on do not count", "[cache]") {
  std::vector<TokenSet> sets{set_of(0, 100), set_of(90, 140), set_of(130, 150)};
  CHECK(take_common_tokens(sets, 11, kTokens).empty());
  CHECK(size_of(sets[0]) == 100);
  CHECK(take_common_tokens(sets, 10, 128).size() == 1);
  CHECK(take_common_tokens(sets, 10, kTokens).size() == 1);
}

TEST_CASE("what is left of a set and what was taken from it make up the set", "[cache]") {
  std::mt19937 random(3);
  std::vector<TokenSet> sets(12, TokenSet(kTokens));
  for (TokenSet& set : sets) {
    for (int token = 0; token < kTokens; ++token) {
      if (random() % 3 != 0) set.insert(token);
    }
  }
  const std::vector<TokenSet> before = sets;
  const int fewest = GENERATE(1, 8, 20);
  const auto common = take_common_tokens(sets, fewest, kTokens);
  CHECK(!common.empty());
  for (int i = 0; i < static_cast<int>(sets.size()); ++i) {
    for (int token = 0; token < kTokens; ++token) {
      int times = sets[i].contains(token) ? 1 : 0;
      for (const CommonTokens& taken : common) {
        const bool is_of = taken.first == i || taken.second == i;
        times += is_of && taken.tokens.contains(token) ? 1 : 0;
      }
      REQUIRE(times == (before[i].contains(token) ? 1 : 0));
    }
  }
  for (const CommonTokens& taken : common) CHECK(size_of(taken.tokens) >= fewest);
}

}  // namespace kvsim::common_tokens_test
