#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "policies/registry/spec.h"
#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::spec_lists_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

Ended sweep(const TemporaryFolder& folder, const std::vector<std::string>& more) {
  std::vector<std::string> words{"sweep",         sample_trace(), "-o", "r.sqlite", "--sequences",
                                 "held-out-text", "--layers",     "0",  "--heads",  "0"};
  words.insert(words.end(), more.begin(), more.end());
  return run(folder.path(), words);
}

/// The values of a column in all rows.
std::multiset<nlohmann::json> column(const TemporaryFolder& folder, const std::string& name,
                                     const std::string& table = "replay") {
  std::multiset<nlohmann::json> values;
  const Ended ended =
      run(folder.path(), {"export", "r.sqlite", "--format", "json", "--table", table});
  for (const auto& row : nlohmann::json::parse(ended.out)) values.insert(row[name]);
  return values;
}

TEST_CASE("cli: repeated lists are joined, grids and ranges stand for each of their values") {
  const TemporaryFolder folder;
  const Ended ended = sweep(folder, {"--policies", "window;h2o:recent={0,0.5}", "--policies", "lru",
                                     "--budgets", "5%..15%:5%", "--budgets", "64"});
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  CHECK(column(folder, "budget_request").count("10%") == 4);
  CHECK(column(folder, "budget_request").size() == 4 * 4);
  for (const char* spec : {"window", "h2o:recent=0", "h2o:recent=0.5", "lru"}) {
    CHECK(column(folder, "policy").count(Spec(spec).text()) == 4);
  }
  const Ended replay = run(folder.path(), {"replay", sample_trace(), "--budget", "5%", "--policy",
                                           "h2o:recent={0,0.5}"});
  CHECK(replay.status == 2);
  CHECK_THAT(replay.err, Contains("--policy takes one policy, found 2"));
}

TEST_CASE("cli: a budget that is named twice is shown once") {
  const TemporaryFolder folder;
  const Ended ended = sweep(folder, {"--policies", "lru", "--budgets", "10%,5%..10%:5%,10.0%"});
  REQUIRE(ended.status == 0);
  CHECK(ended.out.find("\n10%") == ended.out.rfind("\n10%"));
  CHECK_THAT(ended.out, !Contains("10.0%"));
}

TEST_CASE("cli: a recipe is replayed as the policy that it names, and explained") {
  const TemporaryFolder folder;
  std::ofstream(folder / "r.yaml") << "kvsim_recipe: 1\npolicy: h2o:recent=0.3\nname: found\n";
  const Ended ended = sweep(folder, {"--policies", "tova;recipe:file=r.yaml", "--budgets", "5%"});
  INFO(ended.err);
  REQUIRE(ended.status == 0);
  CHECK_THAT(ended.out, Contains("found"));
  CHECK(column(folder, "policy").count(Spec("h2o:recent=0.3").text()) == 1);
  const Ended missing = sweep(folder, {"--policies", "recipe:file=no.yaml", "--budgets", "5%"});
  CHECK(missing.status == 3);
  CHECK_THAT(missing.err, Contains("recipe no.yaml: no such file"));
  CHECK_THAT(run(folder.path(), {"policies", "recipe"}).out, Contains("recipe:file=PATH"));
}

TEST_CASE("cli: an alias is replayed as what it stands for, with one hint") {
  const TemporaryFolder folder;
  const std::vector<std::string> words{"--policies", "streamingllm;streamingllm:sinks=8",
                                       "--budgets", "5%"};
  const Ended ended = sweep(folder, words);
  REQUIRE(ended.status == 0);
  const std::string hint = "kvsim: streamingllm is sink here\n";
  CHECK_THAT(ended.err, Contains(hint));
  CHECK(ended.err.find(hint) == ended.err.rfind(hint));
  CHECK(column(folder, "policy").count(Spec("sink").text()) == 1);
  std::vector<std::string> quiet = words;
  quiet.emplace_back("--quiet");
  CHECK(sweep(folder, quiet).err.empty());
  const Ended explained = run(folder.path(), {"policies", "snapkv"});
  CHECK_THAT(explained.out, Contains("adakv (snapkv@adaptive)"));
  CHECK(run(folder.path(), {"policies", "StreamingLLM"}).out ==
        run(folder.path(), {"policies", "sink"}).out);
}

TEST_CASE("cli: tables show a label, rows keep it, and another one replaces it") {
  const TemporaryFolder folder;
  const std::string spec = Spec("h2o:recent=8").text();
  const Ended first =
      sweep(folder, {"--policies", "mine=h2o:recent=8;window", "--budgets", "5%,10%"});
  REQUIRE(first.status == 0);
  CHECK_THAT(first.out, Contains("5%      mine ") && Contains("\nmine = " + spec + "\n"));
  CHECK(column(folder, "label").count("mine") == 2);
  CHECK(column(folder, "label").count(nullptr) == 2);
  CHECK(column(folder, "policy").count(spec) == 2);

  const Ended second =
      sweep(folder, {"--policies", "yours=h2o:recent=8;window", "--budgets", "5%"});
  REQUIRE(second.status == 0);
  CHECK_THAT(second.err, Contains("2 done before"));
  CHECK(column(folder, "label").count("yours") == 1);
  CHECK(column(folder, "label").count("mine") == 1);

  // One row of the table run for each command that wrote.
  CHECK(column(folder, "command", "run").size() == 2);

  // A sweep that names none changes none.
  REQUIRE(sweep(folder, {"--policies", "h2o:recent=8", "--budgets", "5%"}).status == 0);
  CHECK(column(folder, "label").count("yours") == 1);
  CHECK(column(folder, "command", "run").size() == 2);

  const Ended curve = run(folder.path(), {"curve", sample_trace(), "-o", "r.sqlite", "--layers",
                                          "0", "--heads", "0", "--policies", "old=lru:score=full"});
  REQUIRE(curve.status == 0);
  CHECK_THAT(curve.out, Contains("\nold ") && Contains("old = " + Spec("lru:score=full").text()));
  CHECK(column(folder, "label", "curve").count("old") == column(folder, "label", "curve").size());
}

TEST_CASE("cli: lists that cannot be meant are refused in one line") {
  const TemporaryFolder folder;
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong{
      {{"--policies", "a=lru;a=lfu", "--budgets", "5%"}, "label 'a'"},
      {{"--policies", "lru=lfu", "--budgets", "5%"}, "name of a policy"},
      {{"--policies", "h2o:recent={0,", "--budgets", "5%"}, "not closed"},
      {{"--policies", "h2o:recent={}", "--budgets", "5%"}, "empty"},
      {{"--policies", "", "--budgets", "5%"}, "no policy"},
      {{"--policies", "lru", "--budgets", "5%..50%"}, "no step"},
      {{"--policies", "lru", "--budgets", "0..50:10"}, "keeps nothing"},
      {{"--policies", "lru", "--budgets", "1..1000000:1"}, "1000"},
      {{"--policies", "lru", "--budgets", "5%", "--budgets", ""}, "empty entry"}};
  for (const auto& [words, reason] : wrong) {
    CAPTURE(words);
    const Ended ended = sweep(folder, words);
    CHECK(ended.status == 2);
    CHECK_THAT(ended.err, Contains(reason));
    CHECK(std::count(ended.err.begin(), ended.err.end(), '\n') == 1);
  }
}

}  // namespace kvsim::cli_test::spec_lists_test
