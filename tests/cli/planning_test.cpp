#include <catch2/catch.hpp>

#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::planning_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

std::string replayed(const TemporaryFolder& folder, const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"replay",   "t.h5", "--policy", "optimal:recent=8",
                                     "--budget", "10%",  "--format", "json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Ended ended = run(folder.path(), arguments);
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  return ended.out;
}

Ended swept(const TemporaryFolder& folder, const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"sweep",     "t.h5",    "--policies", "optimal;topk;window",
                                     "--budgets", "10%,40%", "-o",         "r.sqlite"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run(folder.path(), arguments);
}

TEST_CASE("cli: costs in 16 bits give the same rows, and do not make rows of their own") {
  const TemporaryFolder folder;
  REQUIRE(run(folder.path(), {"synth", "-o", "t.h5", "--tokens", "1600", "--layers", "1",
                              "--query-heads", "2", "--kv-heads", "1"})
              .status == 0);
  CHECK(replayed(folder, {"--compact-costs"}) == replayed(folder, {}));
  const Ended first = swept(folder, {"--compact-costs"});
  REQUIRE(first.status == 0);
  const Ended again = swept(folder, {});
  CHECK_THAT(again.err, Contains("6 replays of 1 unit, 6 done before"));
  CHECK(again.out == first.out);
  CHECK(swept(folder, {"--force"}).out == first.out);
}

}  // namespace kvsim::cli_test::planning_test
