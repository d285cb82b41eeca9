#include "gpu/half_vectors.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "gpu/batch_replay.h"
#include "tests/gpu/block_differences.h"
#include "tests/gpu/devices.h"
#include "tests/support/compare.h"
#include "tests/support/units.h"

namespace kvsim::gpu_test::half_vectors_test {

using test_support::random_unit;

// The same unit as if it had been recorded in float16.
Unit in_half(Unit unit) {
  const auto rounded = [](float x) { return static_cast<float>(static_cast<Eigen::half>(x)); };
  unit.key = Matrix(unit.key.unaryExpr(rounded));
  for (Matrix& query : unit.query) query = Matrix(query.unaryExpr(rounded));
  return unit;
}

TEST_CASE("half vectors: units are half if all queries and keys are float16 numbers") {
  const Unit exact = random_unit({.tokens = 20, .group = 2}, 1);
  const Unit half = in_half(exact);
  CHECK_FALSE(gpu::has_half_vectors(exact));
  CHECK(gpu::has_half_vectors(half));
  for (const float other : {1.0001F, 70000.F, 1e-9F}) {
    Unit query = half;
    query.query[1](3, 2) = other;
    CHECK_FALSE(gpu::has_half_vectors(query));
    Unit key = half;
    key.key(19, 3) = other;
    CHECK_FALSE(gpu::has_half_vectors(key));
  }
  Unit values = half;
  values.value(3, 2) = 1.0001F;
  CHECK(gpu::has_half_vectors(values));
}

TEST_CASE("half vectors: the bits are those of IEEE binary16") {
  const std::vector<float> numbers = {0.F, 1.F, -2.F, 65504.F, 0x1p-14F, 0x1p-24F, 1.0009765625F};
  CHECK(gpu::half_bits(numbers) ==
        std::vector<std::uint16_t>{0, 0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x3c01});
}

TEST_CASE("half vectors: logits are the CPU's to a millionth of the largest") {
  const Unit unit = in_half(
      random_unit({.tokens = 100, .head_dim = 128, .value_dim = 8, .group = 2, .spread = 4}, 7));
  AttentionBlock theirs;
  make_cpu_backend()->attend(unit)->compute(64, 32, Outputs::required, theirs);
  for (const TestedDevice& device : tested_devices()) {
    CAPTURE(device.name);
    AttentionBlock mine;
    device.backend()->attend(unit)->compute(64, 32, Outputs::required, mine);
    CHECK(differences(unit, mine, theirs) == "");
    float largest = 0;
    float difference = 0;
    for (std::size_t head = 0; head < 2; ++head) {
      const Matrix& expected = theirs.heads[head].logit;
      largest = std::max(largest, expected.cwiseAbs().maxCoeff());
      difference = std::max(difference, (mine.heads[head].logit - expected).cwiseAbs().maxCoeff());
    }
    CAPTURE(largest, difference * 1e6F);
    CHECK(difference > 0);  // so that it is not the CPU's own product
    CHECK(difference < 1e-6F * largest);
  }
}

TEST_CASE("half vectors: replays agree with the CPU's, whatever else is in their batch") {
  const test_support::UnitShape shape{.tokens = 130, .head_dim = 24, .value_dim = 24, .group = 3};
  const std::vector<Unit> units = {in_half(random_unit(shape, 1)), random_unit(shape, 2),
                                   in_half(random_unit(shape, 3))};
  const std::vector<Configuration> configurations{
      {Spec("h2o"), 30}, {Spec("tova"), 20}, {Spec("keydiff"), 30}, {Spec("topk"), 20}};
  std::vector<UnitReplays> replays;
  for (const Unit& unit : units) replays.push_back({&unit, configurations});
  for (const TestedDevice& device : tested_devices()) {
    const auto together = gpu::replay_on(*device.make(), replays, {});
    for (std::size_t i = 0; i < units.size(); ++i) {
      const auto alone = gpu::replay_on(*device.make(), {&replays[i], 1}, {});
      const auto expected = replay(units[i], configurations, {}, *make_cpu_backend());
      for (std::size_t c = 0; c < configurations.size(); ++c) {
        CAPTURE(device.name, i, configurations[c].policy.text());
        CHECK(test_support::identical(together[i][c].result, alone[0][c].result));
        CHECK(test_support::differences(together[i][c].result, expected[c].result, 1e-4) == "");
      }
    }
  }
}

}  // namespace kvsim::gpu_test::half_vectors_test
