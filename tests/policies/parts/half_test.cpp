#include "policies/parts/half.h"

#include <catch2/catch.hpp>
#include <limits>
#include <vector>

namespace kvsim::half_test {

// Every half from 0 to the largest, ascending, as IEEE 754 defines them: an exponent of five bits
// and a fraction of ten, with no implicit one under the least exponent.
std::vector<float> all_halves() {
  std::vector<float> halves;
  for (int exponent = 0; exponent < 31; ++exponent) {
    for (int fraction = 0; fraction < 1024; ++fraction) {
      const int significand = exponent == 0 ? fraction : 1024 + fraction;
      halves.push_back(static_cast<float>(std::ldexp(significand, std::max(exponent, 1) - 25)));
    }
  }
  return halves;
}

bool both_signs_round(float x, float rounded) {
  return round_to_half(x) == rounded && round_to_half(-x) == -rounded;
}

TEST_CASE("a number rounds to the nearest half, of two to the even one", "[policies]") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> halves = all_halves();
  REQUIRE(halves.back() == kLargestHalf);
  for (std::size_t i = 0; i + 1 < halves.size(); ++i) {
    const float below = halves[i];
    const float above = halves[i + 1];
    const float middle = below + (above - below) / 2;
    CAPTURE(below, above);
    REQUIRE(both_signs_round(below, below));
    REQUIRE(both_signs_round(std::nextafter(middle, 0.F), below));
    REQUIRE(both_signs_round(middle, i % 2 == 0 ? below : above));
    REQUIRE(both_signs_round(std::nextafter(middle, kInfinity), above));
    REQUIRE(half_spacing(below) == above - below);
  }
}

TEST_CASE("numbers beyond the largest half become the largest half", "[policies]") {
  for (const float x : {65504.F, 65505.F, 65520.F, 1e6F, std::numeric_limits<float>::max(),
                        std::numeric_limits<float>::infinity()}) {
    CAPTURE(x);
    CHECK(both_signs_round(x, 65504));
  }
}

TEST_CASE("numbers too small for a half become zero of their sign", "[policies]") {
  CHECK(both_signs_round(0x1p-25F, 0));
  CHECK(both_signs_round(std::numeric_limits<float>::denorm_min(), 0));
  CHECK(std::signbit(round_to_half(-0x1p-30F)));
  CHECK_FALSE(std::signbit(round_to_half(0x1p-30F)));
}

}  // namespace kvsim::half_test
