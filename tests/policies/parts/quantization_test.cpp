#include "policies/parts/quantization.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "policies/parts/half.h"
#include "policies/registry/spec.h"
#include "sim/base/errors.h"
#include "sim/base/random_bits.h"

namespace kvsim::quantization_test {

constexpr float kLargestFloat = std::numeric_limits<float>::max();

std::vector<float> rounded(const Quantization& quantization, int element_bytes,
                           std::vector<float> numbers) {
  quantization.round(numbers, element_bytes);
  return numbers;
}

// Evenly distributed within [offset - scale, offset + scale].
std::vector<float> numbers_around(double offset, double scale, std::size_t size, bool halves,
                                  std::uint64_t seed) {
  std::vector<float> numbers;
  for (std::size_t i = 0; i < size; ++i) {
    const double share = static_cast<double>(random_bits(seed, i) >> 11) * 0x1p-52 - 1;
    const auto x = static_cast<float>(offset + scale * share);
    numbers.push_back(halves ? round_to_half(x) : x);
  }
  return numbers;
}

// The most by which a number may be off: half a step, the step being rounded when it is stored, as
// is the least number where it has more digits than a half; and the sum of both is a float.
double most_error(std::span<const float> numbers, int bits, int element_bytes, bool exact_least) {
  const auto [least, largest] = std::minmax_element(numbers.begin(), numbers.end());
  const double most = std::max(std::fabs(*least), std::fabs(*largest));
  const double lowered = exact_least ? 0 : half_spacing(std::fabs(*least));
  const double step = (static_cast<double>(*largest) - *least + lowered) / ((1 << bits) - 1);
  const double stored =
      element_bytes == 2 ? step * (1 + 0x1p-11) + 0x1p-24 : step * (1 + 0x1p-24) + 0x1p-149;
  return stored / 2 + most * 0x1p-22;
}

void check_errors(const Quantization& quantization, int element_bytes,
                  const std::vector<float>& numbers, bool exact_least) {
  const std::vector<float> stored = rounded(quantization, element_bytes, numbers);
  const auto group = static_cast<std::size_t>(quantization.group);
  for (std::size_t begin = 0; begin < numbers.size(); begin += group) {
    const std::size_t size = std::min(group, numbers.size() - begin);
    const auto original = std::span(numbers).subspan(begin, size);
    const double most = most_error(original, quantization.bits, element_bytes, exact_least);
    std::set<float> distinct;
    for (std::size_t i = 0; i < size; ++i) {
      REQUIRE(std::fabs(static_cast<double>(stored[begin + i]) - original[i]) <= most);
      distinct.insert(stored[begin + i]);
    }
    REQUIRE(distinct.size() <= std::size_t{1} << quantization.bits);
  }
}

TEST_CASE("no number is off by more than half a step, and each is one of 2^bits", "[policies]") {
  std::uint64_t seed = 0;
  for (const int bits : {1, 2, 3, 4, 5, 6, 7, 8}) {
    for (const int group : {1, 3, 64, 1'000'000}) {
      for (const std::size_t size : {1U, 2U, 63U, 64U, 65U, 200U}) {
        for (const double scale : {1e-7, 1e-5, 0.002, 0.3, 1.0, 17.0, 900.0, 30000.0}) {
          for (const double offset : {0.0, -0.7, 1000.0}) {
            CAPTURE(bits, group, size, scale, offset);
            const Quantization quantization{.bits = bits, .group = group};
            const auto halves = numbers_around(offset, scale, size, true, ++seed);
            const auto floats = numbers_around(offset, scale, size, false, ++seed);
            check_errors(quantization, 2, halves, true);
            check_errors(quantization, 2, floats, false);
            check_errors(quantization, 4, floats, true);
          }
        }
      }
    }
  }
}

TEST_CASE("an empty vector stays empty", "[policies]") {
  CHECK(rounded({}, 2, {}).empty());
  CHECK(Quantization{}.bytes(0, 2) == 0);
}

TEST_CASE("least number and step are kept at the recorded precision", "[policies]") {
  // The step 10/3 is 3.333984375 as a half and 3.33333325 as a float: 5 is less than one step and a
  // half of the former and more of the latter.
  const std::vector<float> numbers = {0, 10, 5, 6};
  CHECK(rounded({.bits = 2, .group = 4}, 2, numbers) ==
        std::vector<float>{0, 10.001953125F, 3.333984375F, 6.66796875F});
  CHECK(rounded({.bits = 2, .group = 4}, 4, numbers) ==
        std::vector<float>{0, 10, 20.F / 3, 20.F / 3});
}

TEST_CASE("each group has its own least number and step", "[policies]") {
  CHECK(rounded({.bits = 1, .group = 3}, 2, {0, 1, 4, 100, 140, 200, -8}) ==
        std::vector<float>{0, 0, 4, 100, 100, 200, -8});
}

TEST_CASE("constant vectors are exact", "[policies]") {
  for (const float x : {0.F, 1.5F, -65504.F, 65504.F, 0x1p-24F, -0.333251953125F}) {
    CAPTURE(x);
    CHECK(rounded({.bits = 1, .group = 4}, 2, std::vector<float>(9, x)) ==
          std::vector<float>(9, x));
  }
  for (const float x : {0.1F, -kLargestFloat, kLargestFloat, 0x1p-149F}) {
    CAPTURE(x);
    CHECK(rounded({.bits = 1, .group = 4}, 4, std::vector<float>(9, x)) ==
          std::vector<float>(9, x));
  }
}

TEST_CASE("numbers that lie on 2^bits even steps are exact", "[policies]") {
  for (int bits = 1; bits <= 8; ++bits) {
    for (const float step : {0x1p-24F, 0.25F, 3.F}) {
      for (const float least : {0.F, -2.F * step, 5.F * step}) {
        std::vector<float> numbers;
        for (int code = 0; code < 1 << bits; ++code) {
          numbers.push_back(least + static_cast<float>(code) * step);
        }
        CAPTURE(bits, step, least);
        CHECK(rounded({.bits = bits, .group = 256}, 2, numbers) == numbers);
        CHECK(rounded({.bits = bits, .group = 256}, 4, numbers) == numbers);
      }
    }
  }
}

TEST_CASE("nearly equal halves keep their difference", "[policies]") {
  // Their steps are below the smallest half or among those with few digits.
  CHECK(rounded({.bits = 4, .group = 2}, 2, {0, 0x1p-24F}) == std::vector<float>{0, 0x1p-24F});
  CHECK(rounded({.bits = 8, .group = 3}, 2, {1, 1, 1 + 0x1p-10F})[2] ==
        Approx(1 + 0x1p-10).margin(0x1p-10 / 255 / 2 + 0x1p-25).epsilon(0));
}

TEST_CASE("numbers between two halves keep their difference", "[policies]") {
  // The least number is stored as 1, or the codes could not go below it.
  const float least = 1 + 0x1p-12F;
  const std::vector<float> stored = rounded({.bits = 8, .group = 2}, 2, {least, least + 0x1p-13F});
  CHECK(stored[0] == Approx(least).margin(0x1p-18).epsilon(0));
  CHECK(stored[1] - stored[0] == Approx(0x1p-13).margin(0x1p-17).epsilon(0));
}

TEST_CASE("a range beyond the largest step is met in its middle", "[policies]") {
  CHECK(rounded({.bits = 1, .group = 2}, 2, {-65504, 65504}) == std::vector<float>{-32752, 32752});
  CHECK(rounded({.bits = 1, .group = 2}, 4, {-kLargestFloat, kLargestFloat}) ==
        std::vector<float>{-kLargestFloat / 2, kLargestFloat / 2});
}

TEST_CASE("no number becomes infinite", "[policies]") {
  for (int bits = 1; bits <= 8; ++bits) {
    for (const int element_bytes : {2, 4}) {
      const Quantization quantization{.bits = bits, .group = 4};
      for (const float x : rounded(quantization, element_bytes,
                                   {0, -1, 7, kLargestFloat, -1e20F, -kLargestFloat})) {
        CAPTURE(bits, element_bytes);
        CHECK(std::isfinite(x));
      }
    }
  }
}

TEST_CASE("what was rounded once stays as it is", "[policies]") {
  for (int bits = 1; bits <= 8; ++bits) {
    for (const double scale : {0.3, 20.0}) {
      const Quantization quantization{.bits = bits, .group = 16};
      const auto once =
          rounded(quantization, 2, numbers_around(0, scale, 50, true, random_bits(7, scale > 1)));
      CAPTURE(bits, scale);
      CHECK(rounded(quantization, 2, once) == once);
    }
  }
}

TEST_CASE("a vector takes its integers in whole bytes and two numbers per group", "[policies]") {
  CHECK(Quantization{.bits = 4, .group = 64}.bytes(64, 2) == 32 + 4);
  CHECK(Quantization{.bits = 4, .group = 64}.bytes(70, 2) == 35 + 2 * 4);
  CHECK(Quantization{.bits = 4, .group = 64}.bytes(64, 4) == 32 + 8);
  CHECK(Quantization{.bits = 3, .group = 64}.bytes(5, 2) == 2 + 4);
  CHECK(Quantization{.bits = 8, .group = 1}.bytes(4, 2) == 4 + 4 * 4);
  CHECK(Quantization{.bits = 1, .group = 1'000'000}.bytes(128, 2) == 16 + 4);
}

TEST_CASE("quant says how any policy's keys and values are stored", "[policies]") {
  const Context context{.budget = 8};
  CHECK_FALSE(Spec("window").rules(context).stored.has_value());
  const auto stored = [&](const char* spec) {
    const Rules rules = Spec(spec).rules(context);
    REQUIRE(rules.stored.has_value());
    CHECK_FALSE(rules.is_exact());
    return std::pair(rules.stored->bits, rules.stored->group);
  };
  CHECK(stored("window+quant") == std::pair(4, 64));
  CHECK(stored("window+quant:bits=2,group=16") == std::pair(2, 16));
  CHECK(stored("subgen+quant:bits=8") == std::pair(8, 64));
}

TEST_CASE("of two quants the last one holds", "[policies]") {
  const Rules rules =
      Spec("window+quant:bits=2,group=16+protect:first=3+quant:bits=8").rules({.budget = 8});
  CHECK(rules.stored->bits == 8);
  CHECK(rules.stored->group == 64);
  CHECK(rules.protect_first == 3);
}

TEST_CASE("quant refuses a number of bits that it cannot store", "[policies]") {
  CHECK_THROWS_AS(Spec("full+quant:bits=0"), UsageError);
  CHECK_THROWS_AS(Spec("full+quant:bits=9"), UsageError);
  CHECK_THROWS_AS(Spec("full+quant:group=0"), UsageError);
}

}  // namespace kvsim::quantization_test
