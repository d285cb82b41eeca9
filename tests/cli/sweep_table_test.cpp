#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/cli/rows.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::sweep_table_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

TEST_CASE("cli: --allocate splits the budget of every policy that does not say how itself") {
  const TemporaryFolder folder;
  const Ended swept =
      run(folder.path(), {"sweep", sample_trace(), "--policies", "window;lru@adaptive", "--budgets",
                          "10%", "--allocate", "pyramid", "-o", "r.sqlite", "--quiet"});
  REQUIRE(swept.status == 0);
  CHECK_THAT(swept.out, Contains("window@pyramid") && Contains("lru@adaptive"));
  const auto rows =
      nlohmann::json::parse(run(folder.path(), {"export", "r.sqlite", "--format", "json"}).out);
  int tokens = 0;
  for (const auto& row : rows) {
    CHECK(row["budget"] == 51);
    if (row["policy"] == "window@pyramid") tokens += row["peak_tokens"].get<int>();
  }
  CHECK(tokens == 32 * 51);
}

TEST_CASE("cli: a sweep says where two policies did the same everywhere") {
  const TemporaryFolder folder;
  const Ended swept =
      run(folder.path(), {"sweep", sample_trace(), "--policies", "window;lru;sink:sinks=0",
                          "--budgets", "10%", "--layers", "2", "-o", "r.sqlite", "--quiet"});
  CHECK_THAT(swept.out, Contains("at 10% the same in every unit: window and sink:sinks=0\n"));
  CHECK_THAT(swept.out, !Contains("and lru"));
  const Ended held =
      run(folder.path(), {"sweep", sample_trace(), "--policies", "window;lru;tova;optimal",
                          "--budgets", "100%", "--layers", "2", "-o", "r.sqlite", "--quiet"});
  CHECK_THAT(held.out,
             Contains("at 100% the same in every unit: window, lru, tova and optimal\n") &&
                 Contains("  0.0000  [.0000, .0000]"));
}

TEST_CASE("cli: a sweep says where equal scores decide most evictions") {
  const TemporaryFolder folder;
  const Ended ended =
      run(folder.path(), {"sweep", sample_trace(), "--policies", "scissorhands;window", "--budgets",
                          "5%", "--layers", "0", "-o", "r.sqlite"});
  REQUIRE(ended.status == 0);
  CHECK_THAT(ended.out, Contains("at 5% equal scores decide ") &&
                            Contains("% of the evictions of scissorhands\n") &&
                            !Contains("of the evictions of window"));
}

TEST_CASE("cli: with oracles a sweep says what policies lose against them") {
  const TemporaryFolder folder;
  const auto sweep = [&] {
    return run(folder.path(),
               {"sweep", sample_trace(), "--policies", "window;lru;optimal;certificate",
                "--budgets", "10%", "--layers", "3", "--heads", "0", "-o", "r.sqlite", "--quiet"});
  };
  const Ended swept = sweep();
  REQUIRE(swept.status == 0);
  CHECK_THAT(swept.out, Contains("regret against optimal\n") && Contains("gap closed") &&
                            Contains("at 10% no policy retains more than 0.") &&
                            !Contains("; optimal retains"));
  CHECK(sweep().out == swept.out);
  const auto rows = nlohmann::json::parse(
      run(folder.path(), {"export", "r.sqlite", "--table", "regret", "--format", "json"}).out);
  for (const auto& row : rows) {
    if (row["oracle"] != "optimal:recent=0,cost=mass,weight=uniform") continue;
    CHECK(row["regret"].get<double>() >= -1e-6);
    if (row["policy"] == "window") CHECK(row["gap_closed"] == 0.0);
  }
  const auto bounds = nlohmann::json::parse(
      run(folder.path(), {"export", "r.sqlite", "--table", "certificate", "--format", "json"}).out);
  CHECK(bounds.size() == 4);  // two oracles, two texts
  for (const auto& row : bounds) {
    CHECK(row["recall_bound"].get<double>() >= row["attention_recall"].get<double>());
  }
}

TEST_CASE("cli: under an eviction interval a bound is of policies that evict to the budget") {
  const TemporaryFolder folder;
  const Ended swept =
      run(folder.path(), {"sweep", sample_trace(), "--policies", "window;certificate", "--budgets",
                          "10%", "--layers", "3", "--heads", "0", "--eviction-interval", "4", "-o",
                          "r.sqlite", "--quiet"});
  REQUIRE(swept.status == 0);
  CHECK_THAT(swept.out,
             Contains("at 10% no policy that evicts down to exactly its budget retains more than"));
  CHECK_THAT(run(folder.path(), {"policies", "optimal"}).out,
             Contains("under an eviction interval, among policies that evict down to exactly"));
}

TEST_CASE("cli: tables name a labelled oracle by its label") {
  const TemporaryFolder folder;
  const Ended swept =
      run(folder.path(), {"sweep", sample_trace(), "--policies", "window;best=optimal", "--budgets",
                          "10%", "--layers", "3", "--heads", "0", "-o", "r.sqlite", "--quiet"});
  CHECK_THAT(swept.out, Contains("regret against best\n"));
}

TEST_CASE("cli: a sweep shows the interval of every difference and which policies it cannot rank") {
  const TemporaryFolder folder;
  const Ended swept =
      run(folder.path(),
          {"sweep", sample_trace(), "--policies", "window;sink:sinks=0;tova;lru;full;topk;optimal",
           "--budgets", "10%", "--layers", "2-3", "--heads", "0-1", "-o", "r.sqlite", "--quiet"});
  REQUIRE(swept.status == 0);
  CHECK_THAT(swept.out,
             Catch::Matches("[^]*regret +regret 95% +gap closed +gap 95%\n[^]*") &&
                 Catch::Matches("[^]*\n10% +optimal .* 0\\.0000  \\[\\.0000, \\.0000\\] +"
                                "1\\.0000  \\[1\\.000, 1\\.000\\]\n[^]*"));
  CHECK_THAT(swept.out,
             Contains("at 10% least squared error of the evicting policies: ") &&
                 Contains("95% intervals: paired bootstrap over 8 units, as there are fewer than 5 "
                          "sequences; each for itself"));
  const std::string compared =
      run(folder.path(), {"compare", "r.sqlite", "tova", "lru", "--budget", "10%"}).out;
  const bool is_undecided = compared.find("not distinguishable") != std::string::npos;
  CHECK((swept.out.find("not distinguishable from it: lru") != std::string::npos) == is_undecided);
  for (const char* other : {"full", "topk", "optimal"}) {
    CHECK_THAT(swept.out, !Contains(std::string("policies: ") + other));
  }
}

TEST_CASE("cli: a table that compares policies says once what its numbers can rank") {
  const TemporaryFolder folder;
  const auto printed = [&](const char* verb, const std::string& policies) {
    std::vector<std::string> arguments{verb,       sample_trace(), "--policies", policies,  "-o",
                                       "r.sqlite", "--layers",     "3",          "--heads", "0",
                                       "--quiet"};
    if (arguments.front() == "sweep") arguments.insert(arguments.end(), {"--budgets", "10%,20%"});
    const Ended ended = run(folder.path(), arguments);
    REQUIRE(ended.status == 0);
    return ended.out;
  };
  const std::string line =
      "Open loop. At one budget no number of a replay reliably ranks policies as a running model "
      "does (sim/results/comparisons.md); python -m kvsim.evaluate runs the policies in yours.\n";
  for (const char* verb : {"sweep", "curve"}) {
    const std::string two = printed(verb, "window;lru:score=full");
    REQUIRE(two.ends_with(line));
    CHECK(two.find(line) == two.rfind(line));
    CHECK_THAT(printed(verb, "window"), !Contains("Open loop"));
  }
}

TEST_CASE("cli: the intervals of a sweep do not depend on the order of its traces") {
  const TemporaryFolder folder;
  for (const char* seed : {"1", "2"}) {
    const Ended made = run(folder.path(), {"synth", "-o", std::string(seed) + ".h5", "--tokens",
                                           "64", "--seed", seed, "--quiet"});
    REQUIRE(made.status == 0);
  }
  const auto sweep = [&](const std::string& first, const std::string& second) {
    const Ended swept =
        run(folder.path(), {"sweep", first, second, "--policies", "window;tova;optimal",
                            "--budgets", "20%", "-o", first + ".sqlite", "--quiet"});
    REQUIRE(swept.status == 0);
    return swept.out;
  };
  const std::string forth = sweep("1.h5", "2.h5");
  CHECK(sweep("2.h5", "1.h5") == forth);
  const Ended compared =
      run(folder.path(), {"compare", "1.h5.sqlite", "optimal", "window", "--format", "json"});
  const auto row = nlohmann::json::parse(compared.out).at(0);
  CHECK(row["samples"] == 8);
  const auto without_zero = [&](const char* column) {
    return fmt::format("{:.4f}", row[column].get<double>()).substr(1);
  };
  CHECK_THAT(forth, Contains("[" + without_zero("low") + ", " + without_zero("high") + "]"));
}

TEST_CASE("cli: no policy is best where there are fewer than five samples") {
  const TemporaryFolder folder;
  const Ended four =
      run(folder.path(), {"sweep", sample_trace(), "--policies", "window;tova", "--budgets", "10%",
                          "--layers", "2", "--heads", "0-1", "-o", "four.sqlite", "--quiet"});
  CHECK_THAT(four.out, Contains("too few samples (4) to tell") && !Contains("distinguishable"));
  const Ended compared = run(folder.path(), {"compare", "four.sqlite", "tova", "window"});
  CHECK_THAT(compared.out, Contains("too few samples (4) to tell") && !Contains("better\n"));
  const Ended swept =
      run(folder.path(), {"sweep", sample_trace(), "--policies", "window;tova;optimal", "--budgets",
                          "10%", "--sequences", "held-out-text", "--layers", "2", "--heads", "0",
                          "-o", "r.sqlite", "--quiet"});
  CHECK_THAT(swept.out, Contains("too few samples (1) to tell it from the others\nNo intervals") &&
                            !Contains("[") && !Contains("distinguishable"));
}

TEST_CASE("cli: a schedule that --per-step wrote replays to the same numbers") {
  const TemporaryFolder folder;
  const auto replayed = [&](const std::string& policy, const std::string& file) {
    const Ended ended =
        run(folder.path(), {"replay", sample_trace(), "--policy", policy, "--budget", "51",
                            "--format", "json", "--per-step", file});
    REQUIRE(ended.status == 0);
    auto rows = nlohmann::json::parse(ended.out);
    for (auto& row : rows) {
      row.erase("policy");
      row.erase("ties");  // of the scores, which a schedule does not know
      row.erase("policy_code");
    }
    return rows;
  };
  const auto rows = replayed("lru", "lru.h5");
  const auto again = replayed("schedule:file=lru.h5", "again.h5");
  CHECK(std::equal(again.begin(), again.end(), rows.begin(), rows.end(), agree));
}

TEST_CASE("cli: where a bound does not apply the tables say so") {
  const TemporaryFolder folder;
  const auto with_format = [&](const std::string& format) {
    return run(folder.path(), {"replay", sample_trace(), "--policy", "subgen", "--budget", "51",
                               "--layers", "2", "--heads", "0", "--format", format});
  };
  const auto rows = nlohmann::json::parse(with_format("json").out);
  CHECK(rows[0]["bound_mean"].is_null());
  CHECK(rows[0]["bound_violations"].is_null());
  CHECK_THAT(with_format("csv").out, Contains(",,,"));
  CHECK_THAT(with_format("table").out, Contains(" -\n"));
}

}  // namespace kvsim::cli_test::sweep_table_test
