// --shard: what the program prints, refuses and leaves behind.

#include <SQLiteCpp/SQLiteCpp.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <set>

#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::cli_test::shard_test {

using Catch::Contains;
using Catch::StartsWith;
using traces_test::TemporaryFolder;

std::vector<std::string> with(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

const std::vector<std::string> kSweep{"sweep",     "t.h5", "--policies", "window;tova:scope=layer",
                                      "--budgets", "6",    "-o",         "r.sqlite"};
const std::vector<std::string> kCurve{"curve", "t.h5", "--policies", "window", "-o", "r.sqlite"};
const std::vector<std::string> kAnalyze{"analyze", "t.h5", "--what", "sparsity", "-o", "r.sqlite"};

/// shard, study and finished of every run of the file.
struct Runs {
  std::vector<std::string> shards;
  std::set<std::string> studies;
  std::vector<int> finished;
};

Runs runs_of(const std::filesystem::path& file) {
  const SQLite::Database database(file);
  SQLite::Statement query(database, "SELECT shard, study, finished FROM run");
  Runs runs;
  while (query.executeStep()) {
    runs.shards.push_back(query.getColumn(0).getString());
    runs.studies.insert(query.getColumn(1).getString());
    runs.finished.push_back(query.getColumn(2).getInt());
  }
  return runs;
}

TEST_CASE("cli: a shard says which share of the work it is, and where its rows are") {
  const TemporaryFolder folder;
  test_support::write_random_trace(folder / "t.h5", 1);
  struct Case {
    std::vector<std::string> command;
    std::string said;
  };
  for (const Case& verb : {Case{kSweep, " of 16 replays, about "},
                           {kCurve, " of 8 units, about "},
                           {kAnalyze, " of 8 units, about "}}) {
    const Ended ended = run(folder.path(), with(verb.command, {"--shard", "2/3"}));
    CAPTURE(verb.command.front(), ended.err);
    CHECK(ended.status == 0);
    CHECK_THAT(ended.err, Contains("kvsim: shard 2/3: ") && Contains(verb.said) &&
                              Contains("% of the work\n"));
    CHECK_THAT(ended.out, StartsWith("shard 2/3 of study ") && Contains(" in r.sqlite; ") &&
                              Contains("kvsim merge joins the 3 parts"));
    CHECK(std::count(ended.out.begin(), ended.out.end(), '\n') == 1);
    CHECK(run(folder.path(), with(verb.command, {"--shard", "2/3", "-q"})).err.empty());
  }
}

TEST_CASE("cli: a shard without work succeeds, says so, and its file has a finished run") {
  const TemporaryFolder folder;
  test_support::write_random_trace(folder / "t.h5", 1);
  for (const auto& command : {kSweep, kCurve, kAnalyze}) {
    std::filesystem::remove(folder / "r.sqlite");
    const Ended ended = run(folder.path(), with(command, {"--shard", "40/40"}));
    CAPTURE(command.front(), ended.err);
    CHECK(ended.status == 0);
    CHECK_THAT(ended.err, Contains("kvsim: shard 40/40: nothing to do"));
    CHECK_THAT(ended.out, StartsWith("shard 40/40 of study ") && Contains(": 0 units in "));
    const Runs runs = runs_of(folder / "r.sqlite");
    CHECK(runs.shards == std::vector<std::string>{"40/40"});
    CHECK(runs.finished == std::vector{1});
  }
}

TEST_CASE("cli: shards of one command name one study; a shard again does what is missing") {
  const TemporaryFolder folder;
  test_support::write_random_trace(folder / "t.h5", 1);
  for (const char* shard : {"1/2", "2/2", "2/2"}) {
    const Ended ended = run(folder.path(), with(kSweep, {"--shard", shard}));
    CHECK(ended.status == 0);
  }
  const Ended again = run(folder.path(), with(kSweep, {"--shard", "2/2"}));
  CHECK_THAT(again.err, !Contains(" 0 done before"));
  const Ended forced = run(folder.path(), with(kSweep, {"--shard", "2/2", "--force"}));
  CHECK_THAT(forced.err, Contains(" 0 done before"));
  const Runs runs = runs_of(folder / "r.sqlite");
  CHECK(runs.studies.size() == 1);
  CHECK(std::count(runs.finished.begin(), runs.finished.end(), 1) == 5);
}

TEST_CASE("cli: a file of options may name the shard, and the command line another one") {
  const TemporaryFolder folder;
  test_support::write_random_trace(folder / "t.h5", 1);
  std::ofstream(folder / "sweep.yaml") << "trace: t.h5\npolicies: window\nbudgets: 6\n"
                                          "output: r.sqlite\nshard: 2/4\n";
  CHECK_THAT(run(folder.path(), {"sweep", "--config", "sweep.yaml"}).out, StartsWith("shard 2/4"));
  CHECK_THAT(run(folder.path(), {"sweep", "--config", "sweep.yaml", "--shard", "3/4"}).out,
             StartsWith("shard 3/4"));
  const Runs runs = runs_of(folder / "r.sqlite");
  CHECK(std::set<std::string>(runs.shards.begin(), runs.shards.end()) ==
        std::set<std::string>{"2/4", "3/4"});
  CHECK(runs.studies.size() == 1);
}

TEST_CASE("cli: what is no share of the work ends in one line with status 2") {
  const TemporaryFolder folder;
  test_support::write_random_trace(folder / "t.h5", 1);
  for (const auto& command : {kSweep, kCurve, kAnalyze}) {
    for (const char* shard : {"0/3", "4/3", "3", "a/b", "1/0", "-1/3", "1/3x", ""}) {
      const Ended ended = run(folder.path(), with(command, {std::string("--shard=") + shard}));
      CAPTURE(command.front(), shard, ended.err);
      CHECK(ended.status == 2);
      CHECK(ended.out.empty());
      CHECK_THAT(ended.err, StartsWith("kvsim: error: ") && Contains("--shard"));
      CHECK(std::count(ended.err.begin(), ended.err.end(), '\n') == 1);
    }
  }
  const Ended replay = run(
      folder.path(), {"replay", "t.h5", "--policy", "window", "--budget", "6", "--shard", "1/3"});
  CHECK(replay.status == 2);
  CHECK_THAT(replay.err, Contains("unknown option '--shard'"));
}

}  // namespace kvsim::cli_test::shard_test
