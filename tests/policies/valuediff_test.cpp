#include <catch2/catch.hpp>

#include "sim/base/random_bits.h"
#include "tests/support/kept_tokens.h"

namespace kvsim::valuediff_test {

using namespace policies_test;
using Steps = std::vector<std::int32_t>;
using Vectors = std::vector<std::vector<float>>;

Steps left_after(const std::string& spec, int budget, const Vectors& values) {
  return evicted_after(Spec(spec), budget,
                       {.attention = any_attention(values.size()), .values = values});
}

TEST_CASE("valuediff evicts the value that is most like the others", "[policies]") {
  // Step 2: 0 and 1 point the same way, 1 a little towards 2, which makes it nearest to the mean.
  // Step 3: 0 and 3 cancel, so the mean points along 2.
  CHECK(left_after("valuediff:recent=0", 2, {{1, 0}, {1, 0.1F}, {0, 1}, {-1, 0}}) ==
        Steps{4, 2, 3, 4});
}

TEST_CASE("valuediff looks at directions, not at lengths", "[policies]") {
  CHECK(left_after("valuediff:recent=0", 2, {{7, 0}, {0.2F, 0.02F}, {0, 3}, {-0.1F, 0}}) ==
        Steps{4, 2, 3, 4});
  CHECK(left_after("valuediff:recent=0", 2, {{0, 0}, {0, 0}, {1, 0}}) == Steps{3, 3, 2});
}

TEST_CASE("valuediff keeps recent tokens, whose values count for the mean", "[policies]") {
  const Vectors values = {{0, 1}, {1, 0}, {1, 0.1F}};
  CHECK(left_after("valuediff:recent=0", 2, values) == Steps{3, 3, 2});
  CHECK(left_after("valuediff:recent=1", 2, values) == Steps{3, 2, 3});
  const Vectors many(9, {1, 2});
  CHECK(left_after("valuediff:recent=1.0", 4, many) ==
        evicted_after("window", 4, any_attention(many.size())));
}

TEST_CASE("valuediff does to values what keydiff does to keys", "[policies]") {
  Vectors vectors;
  for (std::uint64_t t = 0; t < 60; ++t) {
    std::vector<float>& vector = vectors.emplace_back();
    for (std::uint64_t d = 0; d < 11; ++d) {
      vector.push_back(static_cast<float>(random_bits(t, d) % 17) - 8);
    }
  }
  const Attention attention = any_attention(vectors.size());
  for (const int budget : {1, 2, 9, 30}) {
    CHECK(left_after("valuediff:recent=0", budget, vectors) ==
          evicted_after(Spec("keydiff"), budget, {.attention = attention, .keys = vectors}));
  }
}

}  // namespace kvsim::valuediff_test
