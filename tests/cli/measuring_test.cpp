#include <H5Cpp.h>
#include <SQLiteCpp/SQLiteCpp.h>

#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::measuring_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

Ended sweep(const TemporaryFolder& folder, const std::string& policies,
            const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"sweep", sample_trace(), "--policies", policies,  "--budgets",
                                     "10%",   "--layers",     "2",          "--heads", "0",
                                     "-o",    "r.sqlite"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run(folder.path(), arguments);
}

nlohmann::json exported(const TemporaryFolder& folder) {
  return nlohmann::json::parse(run(folder.path(), {"export", "r.sqlite", "--format", "json"}).out);
}

TEST_CASE("cli: rows that measure otherwise are rows of another mode, and resumed as such") {
  const TemporaryFolder folder;
  const std::vector<std::vector<std::string>> ways{{}, {"--every", "10"}, {"--reference", "none"}};
  for (const auto& way : ways) {
    const Ended first = sweep(folder, "window;h2o", way);
    INFO(first.err);
    REQUIRE(first.status == 0);
    CHECK_THAT(first.err, Contains(" 0 done before"));
    const Ended again = sweep(folder, "window;h2o", way);
    CHECK_THAT(again.err, Contains("4 replays of 2 units, 4 done before"));
    CHECK(again.out == first.out);
  }
  std::set<std::string> modes;
  for (const auto& row : exported(folder)) modes.insert(row["mode"]);
  CHECK(modes == std::set<std::string>{"stream", "stream:every=10", "stream:reference=none"});
}

TEST_CASE("cli: rows of another eviction interval are rows of another mode") {
  const TemporaryFolder folder;
  const std::vector<std::vector<std::string>> ways{
      {"--mode", "prefill"},
      {"--mode", "prefill", "--eviction-interval", "never"},
      {"--mode", "prefill", "--eviction-interval", "16", "--every", "10"}};
  for (const auto& way : ways) REQUIRE(sweep(folder, "knorm", way).status == 0);
  std::map<std::string, nlohmann::json> rows;
  for (const auto& row : exported(folder)) {
    if (row["sequence"] == "copied-segment") rows[row["mode"]] = row;
  }
  REQUIRE(rows.size() == 3);
  const auto& every_step = rows.at("prefill");
  const auto& once = rows.at("prefill:interval=never");
  const auto& at_times = rows.at("prefill:interval=16,every=10");
  // One cut of the prompt, and every later token stays.
  const int budget = once["budget"];
  const int steps = once["steps"];
  CHECK(once["evictions"] == 512 - steps - budget);
  CHECK(once["peak_tokens"] == budget + steps);
  CHECK(every_step["evictions"] == 512 - budget);
  CHECK(at_times["peak_tokens"] == budget + 15);
  CHECK(once["attention_recall"] > at_times["attention_recall"]);
  CHECK(at_times["attention_recall"] > every_step["attention_recall"]);
}

TEST_CASE("cli: all leaves out what an eviction interval rules out") {
  const TemporaryFolder folder;
  const Ended swept = sweep(folder, "all", {"--eviction-interval", "64"});
  CHECK(swept.status == 0);
  CHECK_THAT(swept.err,
             Contains("left out, as these options rule them out: subgen, expected-attention\n"));
  CHECK_THAT(swept.out, Contains("stream:interval=64 mode") && !Contains("subgen"));
}

TEST_CASE("cli: what scores a prompt alone is replayed where a cache is cut once") {
  const TemporaryFolder folder;
  const Ended once =
      sweep(folder, "expected-attention", {"--mode", "prefill", "--eviction-interval", "never"});
  CHECK(once.status == 0);
  const std::vector<std::vector<std::string>> others{{}, {"--mode", "prefill"}};
  for (const auto& options : others) {
    const Ended refused = sweep(folder, "expected-attention", options);
    CHECK(refused.status == 2);
    CHECK_THAT(refused.err, Contains("use --mode prefill --eviction-interval never"));
  }
}

TEST_CASE("cli: all and oracles leave out what options rule out, wherever they stand") {
  const TemporaryFolder folder;
  const std::string note = "left out, as these options rule them out: ";
  const Ended both =
      sweep(folder, "all;oracles", {"--mode", "prefill", "--eviction-interval", "never"});
  CHECK(both.status == 0);
  CHECK_THAT(both.err, Contains(note + "subgen\n"));
  const Ended unmeasured = sweep(folder, "oracles;all;h2o:recent=0", {"--reference", "none"});
  CHECK(unmeasured.status == 0);
  CHECK_THAT(unmeasured.err, Contains(note) && Contains("optimal, ") && Contains("topk"));
  CHECK(unmeasured.err.find(note) == unmeasured.err.rfind(note));
  const Ended adaptive = sweep(folder, "all", {"--allocate", "adaptive"});
  CHECK(adaptive.status == 0);
  CHECK_THAT(adaptive.err, Contains(note));
  // What the user names is refused, and so is a list of which nothing is left.
  const Ended named = sweep(folder, "all;subgen", {"--eviction-interval", "64"});
  CHECK(named.status == 2);
  CHECK_THAT(named.err, Contains("cannot replay subgen"));
  const Ended nothing = sweep(folder, "oracles;all", {"--eviction-interval", "never"});
  CHECK(nothing.status == 2);
  CHECK_THAT(nothing.err, Contains("in stream mode there is no prompt to cut"));
}

TEST_CASE("cli: a sweep without a reference shows what it does not measure as a dash") {
  const TemporaryFolder folder;
  const Ended swept = sweep(folder, "window;lru", {"--reference", "none", "--quiet"});
  REQUIRE(swept.status == 0);
  CHECK_THAT(swept.out, Contains("stream:reference=none mode") &&
                            Catch::Matches("[^]*10% +window +51 +3264( +-){6}\n[^]*") &&
                            !Contains("the same in every unit"));
  for (const auto& row : exported(folder)) {
    CHECK(row["attention_recall"].is_null());
    CHECK(row["evictions"] == 512 - 51);
  }
}

TEST_CASE("cli: errors at every so many steps leave recall as it is") {
  const TemporaryFolder folder;
  REQUIRE(sweep(folder, "h2o", {}).status == 0);
  REQUIRE(sweep(folder, "h2o", {"--every", "100"}).status == 0);
  const nlohmann::json rows = exported(folder);
  REQUIRE(rows.size() == 4);  // two texts, in the order of keys
  for (const std::size_t i : {0U, 2U}) {
    CHECK(rows[i]["sequence"] == rows[i + 1]["sequence"]);
    CHECK(rows[i]["attention_recall"] == rows[i + 1]["attention_recall"]);
    CHECK(rows[i]["output_error_mean"] != rows[i + 1]["output_error_mean"]);
  }
}

TEST_CASE("cli: the record of every step without a reference is when each token left") {
  const TemporaryFolder folder;
  const Ended ended = run(
      folder.path(), {"replay", sample_trace(), "--policy", "tova", "--budget", "51", "--layers",
                      "2", "--heads", "1", "--per-step", "steps.h5", "--reference", "none"});
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  CHECK_THAT(ended.out, Contains("all, mean"));
  const H5::H5File file((folder.path() / "steps.h5").string(), H5F_ACC_RDONLY);
  const H5::Group group = file.openGroup("/sequences/held-out-text/layers/2/kv_heads/1");
  CHECK(group.nameExists("evicted_after"));
  CHECK_FALSE(group.nameExists("attention_recall"));
  CHECK_FALSE(group.nameExists("output_error"));
}

TEST_CASE("cli: a result file of an earlier version takes full rows and no others") {
  const TemporaryFolder folder;
  REQUIRE(sweep(folder, "window", {}).status == 0);
  {
    SQLite::Database file(folder.path() / "r.sqlite", SQLite::OPEN_READWRITE);
    std::string made =
        file.execAndGet("SELECT sql FROM sqlite_schema WHERE name = 'replay'").getString();
    const std::string column = "attention_recall REAL";
    made.replace(made.find(column), column.size(), column + " NOT NULL");
    file.exec("DROP TABLE replay");
    file.exec(made);
  }
  CHECK(sweep(folder, "window", {}).status == 0);
  const Ended refused = sweep(folder, "window", {"--reference", "none"});
  CHECK(refused.status == 3);
  CHECK_THAT(refused.err, Contains("r.sqlite") && Contains("earlier version") &&
                              Contains("use a new result file"));
  CHECK(std::count(refused.err.begin(), refused.err.end(), '\n') == 1);
}

TEST_CASE("cli: all policies without a reference are those that need none") {
  const TemporaryFolder folder;
  const Ended swept =
      run(folder.path(), {"sweep", sample_trace(), "--policies", "all", "--budgets", "10%",
                          "--layers", "0", "--reference", "none", "-o", "r.sqlite"});
  INFO(swept.err);
  CHECK(swept.status == 0);
  CHECK(swept.err.find("left out, as these options rule them out: topk") != std::string::npos);
  CHECK(swept.out.find("scissorhands") != std::string::npos);
  CHECK(swept.out.find("subgen") == std::string::npos);
}

}  // namespace kvsim::cli_test::measuring_test
