#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "policies/parts/unit_vector_levels.h"
#include "tests/policies/stored_text.h"

namespace kvsim::turboquant_test {

using namespace test_support;

double product(std::span<const float> a, std::span<const float> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

TEST_CASE("levels of unit vectors are those of tonbistudio/turboquant-pytorch") {
  // solve_lloyd_max(dim, bits, use_exact=True, max_iter=3000) of turboquant/lloyd_max.py, commit
  // 9997138: the upper half.
  struct Known {
    int dim, bits;
    std::vector<double> levels;
  };
  for (const auto& [dim, bits, levels] :
       {Known{16, 1, {0.2026103}}, Known{16, 2, {0.1124892, 0.3672066}},
        Known{16, 3, {0.05992224, 0.183679, 0.3217425, 0.4991988}},
        Known{64, 2, {0.05651487, 0.1874969}},
        Known{128,
              4,
              {0.0113025, 0.03415157, 0.0577723, 0.08282845, 0.1102884, 0.1418052, 0.180836,
               0.2376638}}}) {
    const std::vector<double>& found = unit_vector_levels(dim, bits);
    REQUIRE(found.size() == 2 * levels.size());
    for (std::size_t i = 0; i < levels.size(); ++i) {
      CHECK(found[levels.size() + i] == Approx(levels[i]).epsilon(1e-6));
      CHECK(found[levels.size() - 1 - i] == Approx(-levels[i]).epsilon(1e-6));
    }
  }
  CHECK(unit_vector_levels(16, 0) == std::vector<double>{0});
}

/// The mean squared error of restored vectors, of their squared lengths.
double distortion(const char* combinator, bool of_keys) {
  StoredText text(combinator, {.shape = {.head_dim = 64, .value_dim = 64}, .seed = 5});
  text.steps(200);
  double error = 0;
  double size = 0;
  for (int t = 0; t < 200; ++t) {
    const auto row = static_cast<std::size_t>(t);
    const std::vector<float>& recorded = of_keys ? text.keys[row] : text.values[row];
    const StoredToken token = text.store->at(t);
    const std::span<const float> stored = of_keys ? token.key : token.value;
    size += product(recorded, recorded);
    error += product(recorded, recorded) - 2 * product(recorded, stored) + product(stored, stored);
  }
  return error / size;
}

TEST_CASE("turboquant's distortion is what the paper states") {
  // Theorem 1: 0.36, 0.117, 0.03 and 0.009 for 1 to 4 bits.
  CHECK(distortion("turboquant:bits=1,residual=no", true) == Approx(0.36).epsilon(0.05));
  CHECK(distortion("turboquant:bits=2,residual=no", true) == Approx(0.117).epsilon(0.05));
  CHECK(distortion("turboquant:bits=3,residual=no", true) == Approx(0.034).epsilon(0.05));
  CHECK(distortion("turboquant:bits=4,residual=yes", false) == Approx(0.009).epsilon(0.08));
}

TEST_CASE("turboquant's residual makes products with keys right on average") {
  const std::vector<float> query = normal_numbers(16, 1, 1001);
  for (const auto& [combinator, is_right] : {std::pair{"turboquant:bits=2,residual=yes", true},
                                             std::pair{"turboquant:bits=1,residual=yes", true},
                                             std::pair{"turboquant:bits=1,residual=no", false}}) {
    CAPTURE(combinator);
    double sum = 0;
    double expected = 0;
    constexpr int kSeeds = 2000;
    for (int seed = 0; seed < kSeeds; ++seed) {
      StoredText text(combinator, {.shape = {.head_dim = 16, .value_dim = 1},
                                   .seed = static_cast<std::uint64_t>(seed)});
      text.step();
      expected = product(query, text.keys[0]);
      sum += product(query, text.store->at(0).key);
    }
    REQUIRE(std::fabs(expected) > 1);
    CHECK((std::fabs(sum / kSeeds / expected - 1) < 0.1) == is_right);
  }
}

TEST_CASE("turboquant's seed decides, and a prompt is quantised at its end") {
  const auto key = [](std::uint64_t seed, bool is_whole) {
    StoredText text("turboquant", {.shape = {.head_dim = 8, .value_dim = 8}, .seed = seed});
    text.step({}, is_whole);
    if (is_whole) CHECK(text.has_key(0));
    text.step();
    const auto stored = text.store->at(0).key;
    return std::vector<float>(stored.begin(), stored.end());
  };
  CHECK(key(1, false) == key(1, true));
  CHECK(key(1, false) != key(2, false));
}

TEST_CASE("turboquant takes the bytes of codes, signs and norms") {
  const StoreContext context{
      .shape = {.head_dim = 9, .value_dim = 5, .key_bytes = 2, .value_bytes = 4}};
  StoredText text("turboquant:bits=3,residual=yes", context);
  text.steps(2, true);
  CHECK(text.store->bytes() == 2 * (9 * 2 + 5 * 4));
  text.step({1});
  const std::size_t token = (3 + 2 + 2 * 2) + (2 + 4);  // 18 bits, 9 signs, 2 norms; 15 bits, 1
  CHECK(text.store->bytes() == 2 * token);
  CHECK(text.kind->bytes(context.shape, 2, 9) == 2 * token);
  const auto plain = Spec("full+turboquant:bits=3,residual=no").rules({.budget = 8}).store;
  CHECK(plain->bytes(context.shape, 1, 9) == (4 + 2) + (2 + 4));
}

}  // namespace kvsim::turboquant_test
