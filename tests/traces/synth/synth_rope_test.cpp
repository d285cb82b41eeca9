#include <catch2/catch.hpp>
#include <cmath>

#include "traces/synth/synth.h"

namespace kvsim::synth_rope_test {

TEST_CASE("a synthetic trace says how its keys were rotated if asked, and else is as before") {
  SynthOptions options;
  options.tokens = 20;
  options.head_dim = 6;
  const Trace plain = synthesize(options);
  CHECK_FALSE(plain.header().shape.rope);
  options.rope_base = 10000;
  const Trace rotated = synthesize(options);
  REQUIRE(rotated.header().shape.rope);
  const std::vector<double>& frequencies = rotated.header().shape.rope->inverse_frequency;
  REQUIRE(frequencies.size() == 3);
  const UnitName name{"synthetic", 0, 1};
  CHECK(frequencies[0] == 1);
  CHECK(frequencies[2] == Approx(std::pow(10000, -4.0 / 6)));
  CHECK(rotated.read_unit(name).key == plain.read_unit(name).key);
  options.rope_base = 0.5;
  CHECK_THROWS_WITH(synthesize(options), Catch::Contains("rope_base: expected a number in [1, "));
}

}  // namespace kvsim::synth_rope_test
