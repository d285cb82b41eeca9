#include "sim/outputs/slot_rotation.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/units.h"

namespace kvsim::slot_rotation_test {

using namespace test_support;

TEST_CASE("a key that is turned lies where its rotation by that many positions puts it",
          "[slots]") {
  Unit unit = random_unit({.tokens = 3, .head_dim = 7}, 73);
  const std::string style = GENERATE("half", "interleaved");
  unit.rope = Rope{{1, 0.37, 0.0001}, style, 1};
  SlotRotation rotation(unit);
  const float* key = unit.key.row(1).data();
  for (const int distance : {0, 1, 7, 2047, 2048, 2049, 100000, 3999999}) {
    CAPTURE(style, distance);
    std::vector<float> turned(7);
    rotation.turn(key, distance, turned.data());
    for (int pair = 0; pair < 3; ++pair) {
      const int a = style == "half" ? pair : 2 * pair;
      const int b = style == "half" ? pair + 3 : 2 * pair + 1;
      const double angle = distance * unit.rope->inverse_frequency[pair];
      const double length = std::hypot(key[a], key[b]);
      CHECK(std::abs(turned[a] - (key[a] * std::cos(angle) - key[b] * std::sin(angle))) <
            2e-7 * length);
      CHECK(std::abs(turned[b] - (key[a] * std::sin(angle) + key[b] * std::cos(angle))) <
            2e-7 * length);
    }
    CHECK(turned[6] == key[6]);
    const float* query = unit.query[0].row(2).data();
    float product = 0;
    for (int d = 0; d < 7; ++d) product += query[d] * turned[d];
    CHECK(rotation.product(query, key, distance) == Approx(product).margin(1e-5));
  }
}

}  // namespace kvsim::slot_rotation_test
