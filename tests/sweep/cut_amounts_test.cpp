#include "sim/sweep/cut_amounts.h"

#include <catch2/catch.hpp>

#include "sim/base/errors.h"
#include "tests/support/sweep_requests.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::cut_amounts_test {

using namespace test_support;
using traces_test::TemporaryFolder;

std::vector<std::string> cuts(const std::string& policies,
                              const std::vector<std::string>& budgets) {
  const TemporaryFolder folder;
  write_random_trace(folder / "t.h5", 1);
  return cut_amounts(plan_sweep(request(folder / "t.h5", policies, budgets)));
}

TEST_CASE("a plan says which budgets have no room for the tokens that a policy protects",
          "[sweep]") {
  const std::vector<std::string> found = cuts("window;h2o:recent=20;snapkv", {"8", "18", "30"});
  REQUIRE(found.size() == 2);
  CHECK_THAT(found[0], Catch::Contains("h2o:recent=20,") &&
                           Catch::EndsWith("8 of 20 protected tokens at 8; 18 of 20 protected "
                                           "tokens at 18"));
  CHECK_THAT(found[1], Catch::EndsWith("8 of 16 protected tokens at 8"));
  CHECK_THAT(cuts("kcenter:recent=9", {"4"}).at(0),
             Catch::EndsWith("4 of 9 protected tokens at 4"));
  CHECK_THAT(cuts("sink:sinks=50", {"1", "2", "3", "4", "5"}).at(0),
             Catch::EndsWith("3 of 50 protected tokens at 3; and at 2 more budgets"));
  CHECK(cuts("sink;h2o;kcenter;full;topk", {"8"}).empty());
}

TEST_CASE("a plan says which budgets have no room for the shares of an estimator", "[sweep]") {
  CHECK_THAT(cuts("subgen", {"5", "8", "100"}).at(0),
             Catch::EndsWith("s=0 of 1, t=0 of 4 at 5; s=1 of 2 at 8"));
  CHECK_THAT(cuts("subgen:t=1+protect:first=30,last=5", {"20"}).at(0),
             Catch::EndsWith("s=0 of 1, t=0 of 1, 10 of 35 protected tokens at 20"));
  CHECK(cuts("subgen", {"1000000"}).empty());
}

TEST_CASE("a plan says which budgets have no room for the recent tokens of an oracle", "[sweep]") {
  const std::vector<std::string> found =
      cuts("optimal:recent=100;h2o-global:recent=20;optimal;h2o-global", {"8", "20"});
  REQUIRE(found.size() == 2);
  CHECK_THAT(found[0], Catch::Contains("too small a budget for optimal:recent=100") &&
                           Catch::EndsWith("8 of 100 recent tokens at 8; 20 of 100 recent tokens "
                                           "at 20"));
  CHECK_THAT(found[1], Catch::EndsWith("8 of 20 recent tokens at 8"));
}

TEST_CASE("a plan refuses a number of samples that a budget has no room for", "[sweep]") {
  CHECK_THROWS_AS(cuts("subgen:s=100", {"1000", "100"}), UsageError);
  CHECK(cuts("subgen:s=100", {"1000"}).empty());
}

}  // namespace kvsim::cut_amounts_test
