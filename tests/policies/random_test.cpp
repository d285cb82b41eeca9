#include <catch2/catch.hpp>

#include "tests/support/kept_tokens.h"

namespace kvsim::random_test {

using namespace policies_test;

double chi_square(const std::vector<int>& counts, double draws) {
  const double expected = draws / static_cast<double>(counts.size());
  double sum = 0;
  for (const int count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

// Critical values of chi-square with 4 and 24 degrees of freedom. Seeds are fixed, so a test that
// passes always does; a right policy and another generator would fail each check once in 10,000.
constexpr double kCritical4 = 23.51;
constexpr double kCritical24 = 58.61;

TEST_CASE("random chooses uniformly among all but the newest, step after step", "[policies]") {
  constexpr int kBudget = 5;
  constexpr int kSteps = 20005;
  const auto policy = Spec("random").make({.budget = kBudget, .seed = 1});
  Cache cache(kSteps, kBudget, policy->rules());
  std::vector<int> counts(kBudget);
  std::vector<int> pairs(kBudget * kBudget);
  std::size_t previous = 0;
  const std::vector<float> attention(kBudget + 1);
  for (int t = 0; t < kSteps; ++t) {
    cache.admit(t);
    const std::vector<std::int32_t> before(cache.tokens().begin(), cache.tokens().end());
    policy->update({.index = t,
                    .tokens = cache.tokens(),
                    .attention = std::span(attention).first(before.size()),
                    .full_attention = {},
                    .overflow = cache.overflow()},
                   cache.scores());
    cache.evict(cache.overflow(), t);
    if (t < kBudget) continue;
    std::size_t slot = 0;
    while (slot < cache.tokens().size() && cache.tokens()[slot] == before[slot]) ++slot;
    REQUIRE(slot < kBudget);  // never the newest
    ++counts[slot];
    if (t % 2 == 0) ++pairs[previous * kBudget + slot];
    previous = slot;
  }
  CHECK(chi_square(counts, 20000) < kCritical4);
  CHECK(chi_square(pairs, 10000) < kCritical24);
}

TEST_CASE("random chooses uniformly over seeds", "[policies]") {
  std::vector<int> counts(5);
  for (std::uint64_t seed = 0; seed < 10000; ++seed) {
    const auto left =
        evicted_after(Spec("random"), 5, {.attention = any_attention(6), .seed = seed});
    for (std::size_t token = 0; token < 5; ++token) counts[token] += left[token] == 5;
  }
  CHECK(chi_square(counts, 10000) < kCritical4);
}

TEST_CASE("random evicts the prompt's excess uniformly", "[policies]") {
  std::vector<int> counts(5);
  for (std::uint64_t seed = 0; seed < 10000; ++seed) {
    const auto left = evicted_after(Spec("random"), 3,
                                    {.attention = any_attention(6), .prompt = 6, .seed = seed});
    REQUIRE(left[5] == 6);
    for (std::size_t token = 0; token < 5; ++token) counts[token] += left[token] == 5;
  }
  // Three of five go, so the counts vary less than three independent draws would.
  CHECK(chi_square(counts, 30000) < kCritical4);
}

TEST_CASE("random with room for one token keeps the newest", "[policies]") {
  CHECK(evicted_after("random", 1, any_attention(5)) ==
        evicted_after("window", 1, any_attention(5)));
}

}  // namespace kvsim::random_test
