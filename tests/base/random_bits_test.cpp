#include "sim/base/random_bits.h"

#include <catch2/catch.hpp>
#include <set>

namespace kvsim::random_bits_test {

TEST_CASE("random bits are those of SplitMix64") {
  // The first numbers that its published code gives from seed 0.
  constexpr std::uint64_t kStride = 0x9e3779b97f4a7c15;
  CHECK(random_bits(0) == 0xe220a8397b1dcdaf);
  CHECK(random_bits(kStride) == 0x6e789e6aa1b965f4);
  CHECK(random_bits(2 * kStride) == 0x06c45d188009454f);
}

TEST_CASE("draws of pairs and of names depend on each part and on the order") {
  const std::set<std::uint64_t> draws = {
      random_bits(1, 2),   random_bits(2, 1),    random_bits(1, "ab"), random_bits(1, "ba"),
      random_bits(1, "a"), random_bits(2, "ab"), random_bits(1, "")};
  CHECK(draws.size() == 7);
}

}  // namespace kvsim::random_bits_test
