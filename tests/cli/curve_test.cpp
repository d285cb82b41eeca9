#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/cli/program.h"
#include "tests/cli/rows.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::curve_test {

using Catch::Contains;
using Catch::StartsWith;
using traces_test::TemporaryFolder;

std::vector<std::string> curve(const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"curve", sample_trace(), "--layers", "1", "--heads", "0"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string exported(const TemporaryFolder& folder, const std::string& table = "curve") {
  return run(folder.path(), {"export", "r.sqlite", "--table", table}).out;
}

TEST_CASE("cli: curve writes a row for every budget and prints recall at a dozen") {
  const TemporaryFolder folder;
  const Ended ended = run(folder.path(), curve({"--policies", "all;optimal", "-o", "r.sqlite"}));
  INFO(ended.err);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, StartsWith("attention recall by budget") && Contains("\noptimal ") &&
                            Contains("100%") && Contains("means over 2 units"));
  CHECK_THAT(ended.err, Contains("on 2 units") && Contains("MiB"));
  CHECK_THAT(exported(folder),
             StartsWith("trace_id,sequence,layer,kv_head,policy,budget,mode,seed,"));
  CHECK_THAT(exported(folder, "about"), Contains("Mattson"));
}

TEST_CASE("cli: a curve does not depend on threads and is replaced by the next") {
  const TemporaryFolder folder;
  const std::vector<std::string> command{"--policies", "random;knorm", "-o", "r.sqlite", "-q"};
  const auto with_threads = [&](const char* threads) {
    auto arguments = curve(command);
    arguments.insert(arguments.end(), {"--threads", threads, "--output-error", "every:50"});
    const Ended ended = run(folder.path(), arguments);
    CHECK(ended.status == 0);
    CHECK(ended.err.empty());
    return ended.out +
           run(folder.path(), {"export", "r.sqlite", "--table", "curve", "--without", "run_id"})
               .out;
  };
  const std::string one = with_threads("1");
  CHECK(with_threads("2") == one);
}

TEST_CASE("cli: a curve of pages has the rows of a sweep at the budgets of pages") {
  const TemporaryFolder folder;
  const std::vector<std::string> pages{"--policies", "all;optimal",  "--mode", "prefill", "--page",
                                       "100",        "--page-score", "min",    "-q"};
  const auto rows = [&](const char* table) {
    const Ended ended =
        run(folder.path(), {"export", "r.sqlite", "--table", table, "--format", "json"});
    return nlohmann::json::parse(ended.out);
  };
  auto arguments = curve(pages);
  arguments.insert(arguments.end(), {"--output-error", "all", "-o", "r.sqlite"});
  const Ended ended = run(folder.path(), arguments);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, StartsWith("attention recall by budget, in percent of the tokens as whole "
                                   "pages of 100; means over 2 units"));
  const nlohmann::json of_curve = rows("curve");
  std::set<std::string> policies;
  for (const auto& row : of_curve) policies.insert(row["policy"].get<std::string>());
  arguments[0] = "sweep";
  *std::find(arguments.begin(), arguments.end(), "all;optimal") =
      fmt::format("{}", fmt::join(policies, ";"));
  *std::find(arguments.begin(), arguments.end(), "--output-error") = "--budgets";
  *std::find(arguments.begin(), arguments.end(), "all") = "200,300,400,500,600";
  CHECK(run(folder.path(), arguments).status == 0);
  const nlohmann::json of_sweep = rows("replay");
  REQUIRE(of_curve.size() == of_sweep.size());
  CHECK(of_curve.size() == 2 * 5 * policies.size());
  for (std::size_t i = 0; i < of_curve.size(); ++i) {
    nlohmann::json same = of_sweep[i];
    for (const auto& [column, value] : of_sweep[i].items()) {
      if (!of_curve[i].contains(column)) same.erase(column);
    }
    CAPTURE(of_curve[i].dump(), same.dump());
    CHECK(agree(of_curve[i], same));
  }
}

TEST_CASE("cli: curve ends bad input with one line and the right status") {
  const TemporaryFolder folder;
  struct Case {
    std::vector<std::string> arguments;
    int status;
    std::string message;
  };
  const std::vector<Case> cases{
      {{"-o", "r.sqlite"}, 2, "expected --policies"},
      {{"--policies", "window"}, 2, "expected --output"},
      {{"--policies", ";", "-o", "r.sqlite"}, 2, "no policy"},
      {{"--policies", "windw", "-o", "r.sqlite"}, 2, "did you mean 'window'?"},
      {{"--policies", "h2o", "-o", "r.sqlite"}, 2, "h2o:recent=16,score=full"},
      {{"--policies", "keydiff", "-o", "r.sqlite"}, 2, "use kvsim sweep"},
      {{"--policies", "window+quant", "-o", "r.sqlite"}, 2, "one of these: window"},
      {{"--policies", "window", "--allocate", "pyramid", "-o", "r.sqlite"}, 2, "window@pyramid"},
      {{"--policies", "window", "--output-error", "x", "-o", "r.sqlite"}, 2, "--output-error"},
      {{"--policies", "window", "--threads", "0", "-o", "r.sqlite"}, 2, "--threads"},
      {{"--policies", "window", "--mode", "strem", "-o", "r.sqlite"}, 2, "'stream'"},
      {{"--policies", "window", "-o", "missing/r.sqlite"}, 1, "missing/r.sqlite"},
  };
  for (const Case& bad : cases) {
    const Ended ended = run(folder.path(), curve(bad.arguments));
    INFO(bad.message << "\n" << ended.err);
    CHECK(ended.status == bad.status);
    CHECK_THAT(ended.err, StartsWith("kvsim: error: ") && Contains(bad.message));
    CHECK(std::count(ended.err.begin(), ended.err.end(), '\n') == 1);
  }
  const Ended missing =
      run(folder.path(), {"curve", "no.h5", "--policies", "window", "-o", "r.sqlite"});
  CHECK(missing.status == 3);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "r.sqlite"));
}

}  // namespace kvsim::cli_test::curve_test
