#include "sim/sweep/verify.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "sim/base/errors.h"
#include "tests/support/reference_replay.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/units.h"
#include "traces/trace_writer.h"

namespace kvsim::verify_test {

using namespace test_support;

TraceHeader header_of(const Unit& unit) {
  TraceHeader header;
  header.model = "random";
  header.num_layers = 3;
  header.shape.num_query_heads = unit.group_size();
  header.shape.num_kv_heads = 1;
  header.shape.head_dim = static_cast<int>(unit.key.cols());
  header.shape.value_dim = static_cast<int>(unit.value.cols());
  header.shape.scale = double{unit.scale};
  return header;
}

std::vector<Matrix> outputs_of(const Unit& unit) {
  std::vector<Matrix> outputs;
  for (const ReferenceAttention& head : ReferenceUnit(unit).heads) {
    Matrix& output = outputs.emplace_back(unit.num_tokens(), unit.value.cols());
    for (Eigen::Index t = 0; t < output.rows(); ++t) {
      for (Eigen::Index c = 0; c < output.cols(); ++c) {
        output(t, c) = static_cast<float>(
            head.output[static_cast<std::size_t>(t)][static_cast<std::size_t>(c)]);
      }
    }
  }
  return outputs;
}

TEST_CASE("recomputed outputs are compared with the recorded ones layer by layer", "[sweep]") {
  const traces_test::TemporaryFolder folder;
  const Unit unit = random_unit({.tokens = 90, .head_dim = 8, .group = 2}, 61);
  const std::vector<Matrix> right = outputs_of(unit);
  std::vector<Matrix> wrong = right;
  wrong[1](77, 2) += 1e-2F;
  {
    TraceWriter writer(folder / "t.h5", header_of(unit), ElementType::float32);
    writer.begin_sequence("s", 90, 0, "", {});
    writer.write_layer(0, unit.query, {unit.key}, {unit.value}, right);
    writer.write_layer(1, unit.query, {unit.key}, {unit.value}, wrong);
    writer.write_layer(2, unit.query, {unit.key}, {unit.value}, {});
    writer.close();
  }
  const int threads = GENERATE(1, 2);
  const auto checks = verify(Trace(folder / "t.h5"), {}, *make_cpu_backend(), threads);
  REQUIRE(checks.size() == 3);
  for (std::size_t layer = 0; layer < 3; ++layer) {
    CHECK(checks[layer].sequence == "s");
    CHECK(checks[layer].layer == static_cast<int>(layer));
  }
  CHECK(checks[0].has_output);
  CHECK(checks[0].agrees());
  CHECK(checks[1].has_output);
  CHECK_FALSE(checks[1].agrees());
  CHECK(checks[1].worst_error > 1e-3);
  CHECK_FALSE(checks[2].has_output);
}

TEST_CASE("KV heads that are the same in all numbers are found", "[sweep]") {
  const traces_test::TemporaryFolder folder;
  const Unit unit = random_unit({.tokens = 20, .head_dim = 8, .group = 2}, 63);
  const Matrix other_value = -unit.value;
  TraceHeader header = header_of(unit);
  header.shape.num_kv_heads = 2;
  {
    TraceWriter writer(folder / "t.h5", header, ElementType::float32);
    writer.begin_sequence("s", 20, 0, "", {});
    writer.write_layer(0, unit.query, {unit.key, unit.key}, {unit.value, other_value}, {});
    writer.write_layer(1, unit.query, {unit.key, unit.key}, {unit.value, unit.value}, {});
    writer.close();
  }
  const auto checks = verify(Trace(folder / "t.h5"), {}, *make_cpu_backend(), 1);
  REQUIRE(checks.size() == 2);
  CHECK_FALSE(checks[0].repeats_heads);
  CHECK(checks[1].repeats_heads);
}

TEST_CASE("an output of values that cancel is measured against their lengths", "[sweep]") {
  const traces_test::TemporaryFolder folder;
  Unit unit = random_unit({.tokens = 40, .head_dim = 8, .group = 1}, 62);
  unit.query[0].setZero();  // attention is even over all tokens
  for (Eigen::Index t = 0; t < unit.value.rows(); ++t) {
    unit.value.row(t).setConstant(t % 2 == 0 ? 1.0F : -1.0F);
  }
  const float off = GENERATE(1e-5F, 1e-3F);  // in place of the 0 after an even number of tokens
  std::vector<Matrix> recorded = outputs_of(unit);
  recorded[0](31, 0) += off;
  {
    TraceWriter writer(folder / "t.h5", header_of(unit), ElementType::float32);
    writer.begin_sequence("s", 40, 0, "", {});
    writer.write_layer(0, unit.query, {unit.key}, {unit.value}, recorded);
    writer.close();
  }
  const auto checks = verify(Trace(folder / "t.h5"), {}, *make_cpu_backend(), 1);
  REQUIRE(checks.size() == 1);
  const double length = std::sqrt(static_cast<double>(unit.value.cols()));  // of each value
  CHECK(checks[0].worst_error == Approx(double{off} / length).epsilon(1e-2));
  CHECK(checks[0].agrees() == (off < 1e-4F));
}

}  // namespace kvsim::verify_test
