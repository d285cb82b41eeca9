#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/cli/rows.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::provenance_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

Ended sweep(const TemporaryFolder& folder, const std::string& policies,
            const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"sweep", sample_trace(), "--policies", policies, "--budgets",
                                     "10%",   "--layers",     "1",          "-o",     "r.sqlite"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run(folder.path(), arguments);
}

nlohmann::json table(const TemporaryFolder& folder, const std::string& name,
                     const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"export", "r.sqlite", "--table", name, "--format", "json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return nlohmann::json::parse(run(folder.path(), arguments).out);
}

/// Whether the table replay has the same numbers as these rows of it.
bool has_numbers_of(const TemporaryFolder& folder, const nlohmann::json& rows) {
  const auto present = table(folder, "replay");
  return std::equal(present.begin(), present.end(), rows.begin(), rows.end(), agree);
}

void edit(const TemporaryFolder& folder, const std::string& sql) {
  SQLite::Database(folder.path() / "r.sqlite", SQLite::OPEN_READWRITE).exec(sql);
}

TEST_CASE("cli: rows of another code are made again, and one line says so") {
  const TemporaryFolder folder;
  const Ended first = sweep(folder, "window;h2o;certificate");
  REQUIRE(first.status == 0);
  const auto rows = table(folder, "replay");
  const auto certificates = table(folder, "certificate", {"--without", "run_id"});
  // As if another build of h2o and certificate had written them. Then h2o beats the bound.
  edit(folder,
       "UPDATE replay SET policy_code = 'other', attention_recall = 0 "
       "WHERE policy GLOB 'certificate*'");
  edit(folder, "UPDATE certificate SET recall_bound = 0");
  edit(folder,
       "UPDATE replay SET policy_code = 'other', attention_recall = 0.1 "
       "WHERE policy GLOB 'h2o*'");
  const Ended some = sweep(folder, "window;h2o");
  CHECK(some.status == 0);
  CHECK_THAT(some.err, Contains("kvsim: 8 rows of another code of h2o are made again\n") &&
                           Contains("8 done before"));
  const Ended all = sweep(folder, "window;h2o;certificate");
  CHECK_THAT(all.err, Contains("8 rows of another code of certificate are made again"));
  CHECK(all.out == first.out);
  CHECK(has_numbers_of(folder, rows));
  CHECK(table(folder, "certificate", {"--without", "run_id"}) == certificates);
  const Ended again = sweep(folder, "window;h2o;certificate");
  CHECK_THAT(again.err, !Contains("another code") && Contains("24 done before"));
}

TEST_CASE("cli: with --quiet rows of another code are made again without a word") {
  const TemporaryFolder folder;
  sweep(folder, "window");
  const auto rows = table(folder, "replay");
  edit(folder, "UPDATE replay SET policy_code = 'other', attention_recall = 0.1");
  CHECK(sweep(folder, "window", {"--quiet"}).err.empty());
  CHECK(has_numbers_of(folder, rows));
}

TEST_CASE("cli: --force makes all rows again") {
  const TemporaryFolder folder;
  sweep(folder, "window;lru");
  const auto rows = table(folder, "replay");
  edit(folder, "UPDATE replay SET attention_recall = 0.1");
  CHECK_THAT(sweep(folder, "lru", {"--force"}).err, Contains("0 done before"));
  CHECK_FALSE(has_numbers_of(folder, rows));
  sweep(folder, "window", {"--force"});
  CHECK(has_numbers_of(folder, rows));
}

TEST_CASE("cli: the table run has the commands that wrote, and every row names its own") {
  const TemporaryFolder folder;
  sweep(folder, "window;h2o", {"--threads", "2"});
  sweep(folder, "window;h2o");  // writes nothing
  sweep(folder, "tova");
  const std::vector<std::string> rest{sample_trace(), "--layers", "1", "-o", "r.sqlite"};
  std::vector<std::string> curve{"curve", "--policies", "window"};
  curve.insert(curve.end(), rest.begin(), rest.end());
  CHECK(run(folder.path(), curve).status == 0);
  std::vector<std::string> analyze{
      "analyze", "--what", "sparsity,evictions", "--policies", "window", "--budgets", "10%"};
  analyze.insert(analyze.end(), rest.begin(), rest.end());
  CHECK(run(folder.path(), analyze).status == 0);

  const std::string version = run(folder.path(), {"--version"}).out;
  const auto runs = table(folder, "run");
  REQUIRE(runs.size() == 4);
  std::map<std::string, std::size_t> written;
  for (const auto& row : runs) {
    CHECK_THAT(row["started"].get<std::string>(),
               Catch::Matches("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"));
    CHECK(row["seconds"].get<double>() > 0);
    CHECK("kvsim " + row["kvsim_version"].get<std::string>() + "\n" == version);
    CHECK(row["device"] == "cpu");
    CHECK(row["threads"].get<int>() >= 1);
    CHECK_THAT(row["command"].get<std::string>(), Catch::StartsWith("kvsim "));
    written[row["run_id"]] = row["rows_written"];
  }
  CHECK(written.size() == 4);
  std::map<std::string, std::size_t> named;
  for (const char* name : {"replay", "layer_error", "curve", "sparsity", "evictions", "unit"}) {
    for (const auto& row : table(folder, name)) ++named[row["run_id"]];
  }
  CHECK(named == written);
  for (const char* name : {"replay", "curve", "evictions"}) {
    for (const auto& row : table(folder, name)) {
      CHECK_THAT(row["policy_code"].get<std::string>(), Catch::Matches("[0-9a-f]{16}"));
    }
  }
}

TEST_CASE("cli: the command in the table run is one that a shell takes") {
  const TemporaryFolder folder;
  sweep(folder, "window;h2o", {"--sequences", "held-out-text"});
  const std::string command = table(folder, "run")[0]["command"];
  CHECK_THAT(command, Catch::StartsWith("kvsim sweep /") &&
                          Contains(" --policies 'window;h2o' --budgets 10% --layers 1 -o r.sqlite "
                                   "--sequences held-out-text"));
}

TEST_CASE("cli: export leaves out the columns that --without names") {
  const TemporaryFolder folder;
  sweep(folder, "window");
  const Ended exported = run(folder.path(), {"export", "r.sqlite", "--without", "run_id,trace"});
  const std::string header = exported.out.substr(0, exported.out.find('\n'));
  CHECK_THAT(header, Contains("seed,budget_request,") && Catch::EndsWith(",policy_code"));
  const Ended wrong = run(folder.path(), {"export", "r.sqlite", "--without", "trace,run"});
  CHECK(wrong.status == 2);
  CHECK_THAT(wrong.err, Contains("--without: there is no column 'run'; did you mean 'run_id'?"));
}

TEST_CASE("cli: --version prints the release and the revision") {
  const TemporaryFolder folder;
  CHECK_THAT(run(folder.path(), {"--version"}).out,
             Catch::Matches("kvsim [0-9]+\\.[0-9]+\\.[0-9]+(\\+g[0-9a-f]{7,}(\\.dirty)?)?\n"));
}

}  // namespace kvsim::cli_test::provenance_test
