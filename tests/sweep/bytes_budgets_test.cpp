#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "tests/support/small_trace.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::bytes_budgets_test {

using namespace test_support;
using traces_test::TemporaryFolder;

TEST_CASE("each policy of a plan has the tokens that it can store in a size", "[sweep]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  const Trace trace(folder / "t.h5");
  const VectorShape vectors = select_units(trace, {}).front().vectors;
  const int bytes = 9 * static_cast<int>(vectors.bytes());
  const std::string size = std::to_string(bytes) + "B";
  const SweepPlan plan = plan_sweep(request(trace, "window;window+quant:bits=1", {size, "9"}));
  const PlannedUnit& unit = plan.units.front();
  REQUIRE(unit.replays.size() == 3);  // window has 9 tokens by both budgets
  CHECK(unit.replays[0].budget == 9);
  CHECK(unit.replays[0].budget_request == size);
  CHECK(unit.replays[1].budget > 9);
  CHECK(unit.replays[1].budget_request == size);
  CHECK(unit.replays[2].budget == 9);
  CHECK(unit.replays[2].budget_request == "9");
  CHECK(SweepPlan::budget_of(unit, 0, 1) == unit.replays[1].budget);
  CHECK(SweepPlan::budget_of(unit, 1, 0) == 9);
}

TEST_CASE("no cache exceeds the size that was asked for, and none wastes a token", "[sweep]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  const Trace trace(folder / "t.h5");
  const std::size_t vectors = select_units(trace, {}).front().vectors.bytes();
  const std::size_t bytes = 7 * vectors + 5;
  SweepRequest wanted =
      request(trace, "window;tova+rest;h2o+quant:bits=8,group=2", {std::to_string(bytes) + "B"});
  const bool in_pages = GENERATE(false, true);
  if (in_pages) {
    wanted.protocol.paging.size = 2;
    wanted.policies.erase(wanted.policies.begin() + 1);
  }
  for (const Result& row : rows_of(wanted)) {
    CAPTURE(row.policy, row.budget, row.cache_bytes);
    CHECK(row.cache_bytes <= static_cast<std::int64_t>(bytes));
    CHECK(row.budget_request == std::to_string(bytes) + "B");
    if (!in_pages) {
      CHECK(row.cache_bytes / row.budget * (row.budget + 1) > static_cast<std::int64_t>(bytes));
    }
  }
}

TEST_CASE("rows of a size are those of its tokens", "[sweep]") {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  const Trace trace(folder / "t.h5");
  const std::size_t bytes = 6 * select_units(trace, {}).front().vectors.bytes();
  const auto sized = rows_of(request(trace, "h2o", {std::to_string(bytes) + "B"}));
  const auto tokens = rows_of(request(trace, "h2o", {"6"}));
  REQUIRE(sized.size() == tokens.size());
  for (std::size_t i = 0; i < sized.size(); ++i) {
    CHECK(sized[i].budget == 6);
    CHECK(sized[i].attention_loss == tokens[i].attention_loss);
    CHECK(sized[i].cache_bytes == static_cast<std::int64_t>(bytes));
  }
}

TEST_CASE("a size is tokens of each layer's own vectors, which no policy may join", "[sweep]") {
  const TemporaryFolder folder;
  const TraceHeader header = traces_test::small_header();
  TraceWriter writer(folder / "t.h5", header, ElementType::float16);
  writer.begin_sequence("a", traces_test::kSmallTokens, 2, "a source", {7, 8, 9, 7, 8});
  for (const int dim : {4, 8}) {
    TraceHeader other = header;
    other.shape.head_dim = dim;
    const auto layer = traces_test::numbered_layer(other, traces_test::kSmallTokens, 0);
    writer.write_layer(dim == 8 ? 1 : 0, layer.query, layer.key, layer.value, {});
  }
  writer.close();
  const Trace trace(folder / "t.h5");
  const SweepPlan plan = plan_sweep(request(trace, "window", {"44B"}));
  CHECK(plan.units.front().replays[0].budget == 3);  // 4 and 3 numbers of 2 bytes
  CHECK(plan.units.back().replays[0].budget == 2);   // 8 and 3
  for (const char* policy : {"window@pyramid", "spatten"}) {
    CAPTURE(policy);
    CHECK_THROWS_WITH(plan_sweep(request(trace, policy, {"44B"})),
                      Catch::Contains("has one budget for all layers") &&
                          Catch::Contains("found 3 in layer 0 and 2 in layer 1"));
    CHECK_NOTHROW(plan_sweep(request(trace, policy, {"3"})));
  }
}

}  // namespace kvsim::bytes_budgets_test
