// kvsim check, and what other verbs do with values that cannot be.

#include <SQLiteCpp/SQLiteCpp.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::cli_test::check_test {

using Catch::Contains;
using Catch::Matches;
using traces_test::TemporaryFolder;

void sweep(const TemporaryFolder& folder) {
  test_support::write_random_trace(folder / "t.h5", 1);
  REQUIRE(run(folder.path(), {"sweep", "t.h5", "--policies", "window;h2o", "--budgets", "6", "-q",
                              "-o", "r.sqlite"})
              .status == 0);
}

void edit(const TemporaryFolder& folder, const std::string& sql) {
  SQLite::Database(folder / "r.sqlite", SQLite::OPEN_READWRITE).exec(sql);
}

TEST_CASE("cli: check prints the tables of a sound file, and names the first fault of another") {
  const TemporaryFolder folder;
  sweep(folder);
  const Ended sound = run(folder.path(), {"check", "r.sqlite"});
  CHECK(sound.status == 0);
  CHECK_THAT(sound.out, Matches("table +rows +units +verdict\nreplay +16 +8 +agrees\n"
                                "run +1 +1 +agrees\nr.sqlite: result file of format 1\n"));
  CHECK(sound.err.empty());

  edit(folder, "UPDATE replay SET cache_bytes = cache_bytes + 1 WHERE layer = 1 AND kv_head = 0");
  const Ended changed = run(folder.path(), {"check", "r.sqlite"});
  CHECK(changed.status == 3);
  CHECK(changed.out.empty());
  CHECK_THAT(changed.err, Matches("kvsim: error: r\\.sqlite: table replay, unit .*\"layer\":1,"
                                  "\"kv_head\":0\\}: rows: expected 2 rows with digest .*\n"));
}

TEST_CASE("cli: check refuses what is no file of kvsim") {
  const TemporaryFolder folder;
  std::ofstream(folder / "text") << "a text";
  const Ended missing = run(folder.path(), {"check", "none"});
  CHECK(missing.status == 3);
  CHECK(missing.err ==
        "kvsim: error: none: expected a result file or a trace, found no such file\n");
  CHECK(run(folder.path(), {"check", "text"}).status == 3);
}

TEST_CASE("cli: values out of range end export, compare and merge in one line") {
  const TemporaryFolder folder;
  sweep(folder);
  edit(folder, "UPDATE replay SET attention_recall = 2");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"export", "r.sqlite"},
                                                {"export", "r.sqlite", "--format", "json"},
                                                {"compare", "r.sqlite", "window", "h2o"},
                                                {"check", "r.sqlite"}}) {
    const Ended refused = run(folder.path(), words);
    INFO(words[0]);
    CHECK(refused.status == 3);
    CHECK(refused.out.empty());
    CHECK_THAT(refused.err, Contains("attention_recall: expected 0 .. 1, found 2; ") &&
                                Contains("layer=0, kv_head=0, policy='"));
  }
  const Ended merged = run(folder.path(), {"merge", "r.sqlite", "-o", "all.sqlite"});
  CHECK(merged.status == 3);
  CHECK_FALSE(std::filesystem::exists(folder / "all.sqlite"));
}

TEST_CASE("cli: a recall that is gone ends a sweep in one line") {
  const TemporaryFolder folder;
  sweep(folder);
  edit(folder, "UPDATE replay SET attention_recall = NULL WHERE layer = 1 AND policy = 'window'");
  const Ended refused = run(folder.path(), {"sweep", "t.h5", "--policies", "window;h2o",
                                            "--budgets", "6", "-q", "-o", "r.sqlite"});
  CHECK(refused.status == 3);
  CHECK(refused.out.empty());
  CHECK_THAT(refused.err, Contains("layer 1 KV head 0, window at budget 6, mode stream: "
                                   "attention_recall: expected a number, found NULL; "));
}

TEST_CASE("cli: CSV marks what a spreadsheet would run, and says so") {
  const TemporaryFolder folder;
  sweep(folder);
  edit(folder, "UPDATE replay SET label = '=mine' WHERE policy LIKE 'h2o%'");
  const Ended csv = run(folder.path(), {"export", "r.sqlite"});
  CHECK(csv.status == 0);
  CHECK_THAT(csv.out, Contains(",'=mine,"));
  CHECK(csv.err ==
        "kvsim: a spreadsheet would run some texts of label as formulas: they have a ' before "
        "them; --format json has them as they are\n");
  const Ended json = run(folder.path(), {"export", "r.sqlite", "--format", "json"});
  CHECK_THAT(json.out, Contains("\"label\":\"=mine\""));
  CHECK(json.err.empty());
}

}  // namespace kvsim::cli_test::check_test
