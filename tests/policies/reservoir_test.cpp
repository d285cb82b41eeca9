#include <catch2/catch.hpp>

#include "tests/policies/chi_square.h"
#include "tests/support/kept_tokens.h"

namespace kvsim::reservoir_test {

using namespace policies_test;
using Steps = std::vector<std::int32_t>;

// Critical value of chi-square with 8 degrees of freedom, as in chi_square.h.
constexpr double kCritical8 = 31.83;

TEST_CASE("reservoir keeps every older token with the same probability", "[policies]") {
  constexpr std::size_t kTokens = 12;
  constexpr std::size_t kRecent = 3;
  std::vector<int> counts(kTokens - kRecent);
  for (std::uint64_t seed = 0; seed < 10000; ++seed) {
    const Steps left = evicted_after(Spec("reservoir:recent=3"), 4,
                                     {.attention = any_attention(kTokens), .seed = seed});
    for (std::size_t token = 0; token < kTokens; ++token) {
      const bool stays = left[token] == static_cast<int>(kTokens);
      if (token >= counts.size()) {
        REQUIRE(stays);
      } else {
        counts[token] += stays;
      }
    }
  }
  CHECK(chi_square(counts, std::vector(counts.size(), 1.0 / 9), 10000) < kCritical8);
}

TEST_CASE("reservoir keeps a small sample within a larger one", "[policies]") {
  const Attention attention = any_attention(40);
  const Steps small = evicted_after("reservoir:recent=4", 8, attention);
  const Steps large = evicted_after("reservoir:recent=4", 16, attention);
  for (std::size_t token = 0; token < small.size(); ++token) CHECK(small[token] <= large[token]);
}

TEST_CASE("reservoir with h2 keeps the heaviest of the older tokens", "[policies]") {
  Attention attention;  // token 2 has half of the attention from its arrival on
  for (std::size_t t = 0; t < 30; ++t) {
    const float share = t < 2 ? 1 : 0.5F;
    std::vector<float>& row = attention.emplace_back(t + 1, share / static_cast<float>(t + 1));
    if (t >= 2) row[2] += 0.5F;
  }
  int kept = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Shown shown{.attention = attention, .seed = seed};
    CHECK(evicted_after(Spec("reservoir:recent=2,h2=0.25"), 4, shown)[2] == 30);
    kept += evicted_after(Spec("reservoir:recent=2"), 4, shown)[2] == 30;
  }
  CHECK(kept < 10);
}

}  // namespace kvsim::reservoir_test
