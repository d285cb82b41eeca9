#include "sim/results/per_step_file.h"

#include <H5Cpp.h>

#include <catch2/catch.hpp>

#include "sim/replay/replay.h"
#include "sim/replay/replay_checks.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/units.h"

namespace kvsim::per_step_file_test {

using namespace test_support;

Outcome some_outcome(int kv_head) {
  const Unit unit = random_unit({.tokens = 12, .group = 2, .prompt_length = 5}, 71);
  const ReplayOptions options{.protocol = {.mode = Mode::prefill}, .trajectories = true};
  Outcome outcome = replay(unit, {{Spec("h2o"), 3}}, options, *make_cpu_backend()).front();
  outcome.result.sequence = std::string("text");
  outcome.result.layer = 4;
  outcome.result.kv_head = kv_head;
  outcome.result.policy = Spec("h2o").text();
  outcome.result.budget = 3;
  outcome.result.mode = Protocol{.mode = Mode::prefill}.name();
  return outcome;
}

void add(const Outcome& outcome, PerStepFile& file) {
  file.add(outcome.result, outcome.trajectory);
}

Matrix read_matrix(const H5::Group& group, const char* name) {
  const H5::DataSet dataset = group.openDataSet(name);
  hsize_t shape[2];
  REQUIRE(dataset.getSpace().getSimpleExtentDims(shape) == 2);
  Matrix matrix(static_cast<Eigen::Index>(shape[0]), static_cast<Eigen::Index>(shape[1]));
  dataset.read(matrix.data(), H5::PredType::NATIVE_FLOAT);
  return matrix;
}

TEST_CASE("the record of every step can be read back", "[results]") {
  const traces_test::TemporaryFolder folder;
  PerStepFile file(folder / "p.h5");
  add(some_outcome(0), file);
  add(some_outcome(7), file);
  CHECK_FALSE(std::filesystem::exists(folder / "p.h5"));
  file.close();

  const H5::H5File record((folder / "p.h5").string(), H5F_ACC_RDONLY);
  const H5::Group group = record.openGroup("/sequences/text/layers/4/kv_heads/7");
  const Trajectory expected = some_outcome(7).trajectory;
  std::vector<std::int32_t> evicted_after(12);
  const H5::DataSet dataset = group.openDataSet("evicted_after");
  REQUIRE(dataset.getSpace().getSimpleExtentNpoints() == 12);
  dataset.read(evicted_after.data(), H5::PredType::NATIVE_INT32);
  CHECK(evicted_after == expected.evicted_after);
  CHECK(read_matrix(group, "attention_recall") == expected.attention_recall);
  CHECK(read_matrix(group, "output_error") == expected.output_error);
  CHECK(expected.output_error.cols() == 7);

  std::string policy, mode;
  std::int64_t budget = 0;
  const H5::Attribute policy_attribute = group.openAttribute("policy");
  policy_attribute.read(policy_attribute.getDataType(), policy);
  const H5::Attribute mode_attribute = group.openAttribute("mode");
  mode_attribute.read(mode_attribute.getDataType(), mode);
  group.openAttribute("budget").read(H5::PredType::NATIVE_INT64, &budget);
  CHECK(policy == "h2o:recent=0.5,score=sum,overlap=no,precision=double,positions=text,keep=heavy");
  CHECK(mode == "prefill");
  CHECK(budget == 3);
}

TEST_CASE("a record that is not closed leaves no file", "[results]") {
  const traces_test::TemporaryFolder folder;
  {
    PerStepFile file(folder / "p.h5");
    add(some_outcome(0), file);
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

}  // namespace kvsim::per_step_file_test
