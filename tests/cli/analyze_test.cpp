#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::analyze_test {

using Catch::Contains;
using Catch::StartsWith;
using traces_test::TemporaryFolder;

const std::vector<std::string> kAnalyze{
    "analyze", sample_trace(), "--layers",       "1",      "--heads",
    "0",       "-o",           "results.sqlite", "--what", "sparsity,clusters"};

std::vector<std::string> with(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST_CASE("cli: analyze fills a table per analysis and prints means") {
  const TemporaryFolder folder;
  const Ended ended = run(folder.path(), kAnalyze);
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, StartsWith("sparsity: "));
  CHECK_THAT(ended.out, Contains("clusters: ") && Contains("relative_radius"));
  CHECK_THAT(ended.err, Contains("2 analyses of 2 units") && Contains("MiB"));
  const std::string table =
      run(folder.path(), {"export", "results.sqlite", "--table", "sparsity"}).out;
  CHECK_THAT(table, StartsWith("trace_id,sequence,layer,query_head,threshold,kv_head,sparsity,"
                               "entries,trace,kvsim_version,run_id\n"));
  CHECK(std::count(table.begin(), table.end(), '\n') == 1 + 2 * 2);
  CHECK_THAT(run(folder.path(), {"export", "results.sqlite", "--table", "about"}).out,
             Contains("H2O section 3.1"));
}

TEST_CASE("cli: the same analysis twice, and with other threads, gives the same file content") {
  const TemporaryFolder folder;
  const auto exported = [&] {
    return run(folder.path(),
               {"export", "results.sqlite", "--table", "power_law", "--without", "run_id"})
        .out;
  };
  const std::vector<std::string> command{
      "analyze", sample_trace(),   "--layers", "1", "--what", "power-law:sample=500,bootstrap=10",
      "-o",      "results.sqlite", "-q"};
  const Ended first = run(folder.path(), with(command, {"--threads", "1"}));
  const std::string table = exported();
  const Ended second = run(folder.path(), with(command, {"--threads", "2"}));
  CHECK(first.status == 0);
  CHECK(first.out == second.out);
  CHECK(first.err.empty());
  CHECK(exported() == table);
}

TEST_CASE("cli: analyses with other parameters add rows to the same table") {
  const TemporaryFolder folder;
  run(folder.path(), kAnalyze);
  run(folder.path(), with({kAnalyze.begin(), kAnalyze.end() - 1}, {"sparsity:threshold=0.5"}));
  const std::string table =
      run(folder.path(), {"export", "results.sqlite", "--table", "sparsity"}).out;
  CHECK(std::count(table.begin(), table.end(), '\n') == 1 + 2 * 4);
}

TEST_CASE("cli: a mean says over how many rows it is, and no summary has a number that is none") {
  const TemporaryFolder folder;
  const Ended ended =
      run(folder.path(),
          {"analyze", sample_trace(), "--layers", "1", "--what", "scissorhands-bound:bootstrap=10",
           "--policies", "window;h2o:recent=300", "--budgets", "3,60%", "-o", "results.sqlite"});
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, Contains("(N): the mean is over N rows") && Contains(" (6)  "));
  CHECK_THAT(ended.out, !Contains("nan") && !Contains("inf"));
  CHECK_THAT(ended.err, Contains("h2o:recent=300,") && Contains("3 of 300 protected tokens at 3"));
}

TEST_CASE("cli: the help of analyze lists every analysis with its parameters") {
  const TemporaryFolder folder;
  const Ended ended = run(folder.path(), {"analyze", "--help"});
  CHECK(ended.status == 0);
  CHECK_THAT(ended.out, Contains("--what") && Contains("threshold=0.01:") &&
                            Contains("scissorhands-bound") && Contains("regression"));
}

TEST_CASE("cli: analyze ends bad input with one line and the right status") {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "text.sqlite") << "this is no database at all, only text\n";
  const std::string trace = sample_trace();
  struct Case {
    std::vector<std::string> arguments;
    int status;
    std::string message;
  };
  const std::vector<Case> cases{
      {{"--what", "sparsity", "-o", "r.sqlite"}, 2, "expected a TRACE"},
      {{trace, "-o", "r.sqlite"}, 2, "expected --what"},
      {{trace, "--what", "sparsity"}, 2, "expected --output"},
      {{trace, "--what", "", "-o", "r.sqlite"}, 2, "unknown analysis ''"},
      {{trace, "--what", "persistance", "-o", "r.sqlite"}, 2, "did you mean 'persistence'"},
      {{trace, "--what", "sparsity:threshold=nan", "-o", "r.sqlite"}, 2, "threshold"},
      {{trace, "--what", "persistence:split=1.5", "-o", "r.sqlite"}, 2, "split"},
      {{trace, "--what", "persistence:threshold=t", "-o", "r.sqlite"}, 2, "2.5/t"},
      {{trace, "--what", "attention-maps:positions=x", "-o", "r.sqlite"}, 2, "178/228/278"},
      {{trace, "--what", "cluster-growth:delta=r", "-o", "r.sqlite"}, 2, "0.5r"},
      {{trace, "--what", "anatomy", "-o", "r.sqlite"}, 2, "--policies"},
      {{trace, "--what", "anatomy", "--policies", "h2o", "-o", "r.sqlite"}, 2, "--budgets"},
      {{trace, "--what", "subgen-bound", "--policies", "h2o", "--budgets", "5", "-o", "r.sqlite"},
       2,
       "subgen-bound"},
      {{trace, "--what", "subgen-bound", "--policies", "subgen:s=100", "--budgets", "1000,20", "-o",
        "r.sqlite"},
       2,
       "take 205 vectors, but the budget leaves 20"},
      {{trace, "--what", "sparsity", "-o", "text.sqlite"}, 3, "expected a result file"},
      {{"nothing.h5", "--what", "sparsity", "-o", "r.sqlite"}, 3, "nothing.h5"},
      {{trace, "--what", "sparsity", "-o", "missing/r.sqlite"}, 1, "missing/r.sqlite"},
  };
  for (const Case& bad : cases) {
    const Ended ended = run(folder.path(), with({"analyze"}, bad.arguments));
    INFO(bad.message << "\n" << ended.err);
    CHECK(ended.status == bad.status);
    CHECK_THAT(ended.err, StartsWith("kvsim: error: ") && Contains(bad.message));
    CHECK(std::count(ended.err.begin(), ended.err.end(), '\n') == 1);
  }
  CHECK_FALSE(std::filesystem::exists(folder.path() / "r.sqlite"));
}

}  // namespace kvsim::cli_test::analyze_test
