#include "sim/tiers/ascending_set.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>

namespace kvsim::ascending_set_test {

template <class Number>
void check_as_set(std::size_t limit, unsigned seed) {
  std::mt19937 random(seed);
  AscendingSet<Number> found(limit);
  std::set<Number> expected;
  for (int i = 0; i < 3000; ++i) {
    if (expected.empty() || random() % 2 == 0) {
      const auto number = static_cast<Number>(random() % limit);
      if (!expected.insert(number).second) continue;
      found.add(number);
    } else {
      REQUIRE(found.take() == *expected.begin());
      expected.erase(expected.begin());
    }
    REQUIRE(found.least() == (expected.empty() ? found.kNone : *expected.begin()));
  }
  while (!expected.empty()) {
    REQUIRE(found.take() == *expected.begin());
    expected.erase(expected.begin());
  }
  CHECK(found.least() == found.kNone);
}

// Numbers in one word, in several words, in several groups of words of words.
TEST_CASE("an ascending set gives its numbers back in order", "[fetch]") {
  for (const std::size_t limit : {1U, 63U, 64U, 65U, 4096U, 5000U, 300'000U, 2'000'000U}) {
    CAPTURE(limit);
    check_as_set<std::uint32_t>(limit, 1);
    check_as_set<std::uint64_t>(limit, 2);
  }
}

}  // namespace kvsim::ascending_set_test
