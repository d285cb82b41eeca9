#include "sim/cache/token_set.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>

namespace kvsim::token_set_test {

using Tokens = std::vector<std::int32_t>;

constexpr int kTokens = 150;  // two full words and a part of one

std::set<std::int32_t> random_tokens(int seed) {
  std::mt19937 random(seed);
  std::set<std::int32_t> tokens;
  for (int i = 0; i < 60; ++i) tokens.insert(static_cast<std::int32_t>(random() % kTokens));
  return tokens;
}

TokenSet as_bits(const std::set<std::int32_t>& tokens) {
  TokenSet set(kTokens);
  for (const std::int32_t token : tokens) set.insert(token);
  return set;
}

Tokens listed(const TokenSet& set, std::int32_t end, bool held) {
  Tokens tokens;
  for_each_token_of(set, end, held, [&](std::int32_t token) { tokens.push_back(token); });
  return tokens;
}

TEST_CASE("a set of tokens holds what was inserted and not erased since", "[cache]") {
  TokenSet set(kTokens);
  set.insert_range(60, 70);
  set.erase(64);
  CHECK(listed(set, kTokens, true) == Tokens{60, 61, 62, 63, 65, 66, 67, 68, 69});
  CHECK(set.contains(63));
  CHECK_FALSE(set.contains(64));
}

TEST_CASE("tokens that are not in a set are those of its complement", "[cache]") {
  const int end = GENERATE(0, 1, 63, 64, 65, 128, 149, kTokens);
  const TokenSet set = as_bits(random_tokens(1));
  CHECK(listed(set, end, false) == listed(set.complement(end), kTokens, true));
}

TEST_CASE("common and different tokens are counted", "[cache]") {
  const auto a = random_tokens(1);
  const auto b = random_tokens(2);
  int common = 0;
  for (const std::int32_t token : a) common += static_cast<int>(b.count(token));
  const auto different = static_cast<int>(a.size() + b.size()) - 2 * common;
  CHECK(common > 0);
  CHECK(count_common(as_bits(a).words(), as_bits(b).words()) == common);
  CHECK(count_different(as_bits(a).words(), as_bits(b).words()) == different);
}

}  // namespace kvsim::token_set_test
