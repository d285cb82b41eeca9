#include <catch2/catch.hpp>

#include "sim/sweep/sweep_jobs.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::replay_shape_test {

using namespace test_support;

/// Of the first job of a sweep over keys of 4 numbers and groups of two query heads.
ReplayShape shape_of(const std::string& policy, Reference reference = Reference::full) {
  const traces_test::TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  SweepRequest wanted = request(folder / "t.h5", policy, {"6", "7"});
  wanted.protocol.mode = Mode::prefill;
  wanted.protocol.eviction_interval = kNeverEvict;
  wanted.protocol.reference = reference;
  const SweepPlan plan = plan_sweep(wanted);
  return replay_shape(plan, jobs_of(plan).front());
}

TEST_CASE("what policies know of queries is in the estimate of memory") {
  CHECK(shape_of("expected-attention").remembered == 2 * 2 * 4 * 4 * sizeof(double));
  CHECK(shape_of("expected-attention:covariance=no").remembered == 0);
}

TEST_CASE("only optimal plans by an auction, and only a long text") {
  CHECK(plans_by_auction(Spec("optimal:recent=5%"), 512));
  CHECK_FALSE(plans_by_auction(Spec("optimal"), 511));
  CHECK_FALSE(plans_by_auction(Spec("certificate"), 4096));
}

TEST_CASE("what planning a budget of a short text takes is in the estimate of memory") {
  const std::size_t tokens = GENERATE(512, 4096);
  ReplayShape shape{.num_tokens = tokens};
  const std::size_t without = replay_memory(shape);
  shape.oracles = true;
  const std::size_t table = tokens * (tokens + 1) / 2 * sizeof(float);
  const std::size_t planning = tokens == 512 ? planning_memory(shape) : table;
  CHECK(replay_memory(shape) - without == 2 * table + planning);
}

TEST_CASE("values are in the estimate of memory if the reference or a policy reads them") {
  CHECK(shape_of("window").reads_values);
  CHECK_FALSE(shape_of("window", Reference::none).reads_values);
  CHECK(shape_of("window;vatp", Reference::none).reads_values);
  ReplayShape shape = shape_of("vatp", Reference::none);
  const std::size_t with_values = replay_memory(shape);
  shape.reads_values = false;
  CHECK(with_values - replay_memory(shape) == shape.num_tokens * shape.value_dim * sizeof(float));
}

TEST_CASE("the sums of each configuration's outputs are in the estimate of memory") {
  ReplayShape shape = shape_of("h2o");
  shape.num_tokens = 1;
  const std::size_t with_few = replay_memory(shape);
  shape.configurations += 40;
  constexpr std::size_t kSum = 24 * 32 * sizeof(double);  // dimensions, steps
  CHECK(replay_memory(shape) - with_few > 40 * kSum);
}

TEST_CASE("what the model selects is in the estimate of memory") {
  ReplayShape shape = shape_of("h2o");
  const std::size_t without = replay_memory(shape);
  shape.most_selected = 8;
  CHECK(replay_memory(shape) - without == shape.num_tokens * 8 * sizeof(std::int32_t));
}

}  // namespace kvsim::replay_shape_test
