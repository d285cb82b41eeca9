#include "sim/sweep/verify.h"

#include <catch2/catch.hpp>

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
  header.num_query_heads = unit.group_size();
  header.num_kv_heads = 1;
  header.head_dim = static_cast<int>(unit.key.cols());
  header.value_dim = static_cast<int>(unit.value.cols());
  header.scale = double{unit.scale};
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

}  // namespace kvsim::verify_test
