// What kvsim merge refuses: nothing is written then.

#include <catch2/catch.hpp>

#include "oracle/oracles.h"
#include "sim/base/errors.h"
#include "sim/results/merge/merge.h"
#include "sim/results/policy_code.h"
#include "tests/results/result_files.h"
#include "tests/support/unsynced_files.h"

namespace kvsim::results_test::merge_refusals_test {

using Catch::Contains;
using test_support::UnsyncedFiles;
using traces_test::TemporaryFolder;

/// The message with which a merge of a.sqlite and b.sqlite is refused; an output that is there
/// stays as it was, and none is made.
std::string refusal(const TemporaryFolder& folder) {
  const auto old = write(folder / "old.sqlite", {row("full", 1)});
  const std::string before = bytes(old);
  std::string message;
  for (const auto& output : {folder / "new.sqlite", old}) {
    try {
      merge_results({folder / "a.sqlite", folder / "b.sqlite"}, output);
      FAIL("it was not refused");
    } catch (const DataError& error) {
      message = error.what();
    }
  }
  CHECK(bytes(old) == before);
  CHECK_FALSE(std::filesystem::exists(folder / "new.sqlite"));
  CHECK(message.find('\n') == std::string::npos);
  return message;
}

std::string names(const TemporaryFolder& folder, const std::string& text, const std::string& first,
                  const std::string& second) {
  return fmt::format(fmt::runtime(text), (folder / first).string(), (folder / second).string());
}

TEST_CASE("merge: rows of the same key that differ are refused, with all that tells", "[merge]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  write(folder / "a.sqlite", {row("h2o", 0.5), row("lru")});
  write(folder / "b.sqlite", {row("h2o", 0.75)});
  CHECK(refusal(folder) ==
        names(folder,
              "table replay, trace_id='id', sequence='text', layer=0, kv_head=0, policy='h2o', "
              "budget=4, mode='stream', seed=0: attention_recall is 0.5 in {} and 0.75 in {}; rows "
              "of the same key must be equal: make one of them again, or leave one of the files "
              "out",
              "a.sqlite", "b.sqlite"));
}

TEST_CASE("merge: a row that differs from the output's is refused", "[merge]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  const auto part = write(folder / "part.sqlite", {row("h2o", 0.5)});
  const auto all = write(folder / "all.sqlite", {row("h2o", 0.75)});
  CHECK_THROWS_WITH(merge_results({part}, all),
                    Contains(fmt::format("attention_recall is 0.75 in {} and 0.5 in {}",
                                         all.string(), part.string())));
}

TEST_CASE("merge: two labels of one row are refused", "[merge]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  for (const std::string name : {"a", "b"}) {
    Result labelled = row("h2o");
    labelled.label = "label " + name;
    write(folder / (name + ".sqlite"), {labelled});
  }
  CHECK_THAT(refusal(folder), Contains(names(folder, "label is 'label a' in {} and 'label b' in {}",
                                             "a.sqlite", "b.sqlite")));
}

TEST_CASE("merge: a policy of two codes is refused, also where no key is the same", "[merge]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  Result other = row("h2o", 0.75, 8);
  other.policy_code = "another";
  write(folder / "a.sqlite", {row("h2o"), row("lru")});
  write(folder / "b.sqlite", {other, row("lru")});
  CHECK(refusal(folder) ==
        names(folder,
              "{} has rows of h2o with policy_code code, {} with another: they come from different "
              "code; make the older file again with the current version (the same command does "
              "that), then merge",
              "a.sqlite", "b.sqlite"));
}

TEST_CASE("merge: only a file that is alone with a policy may have rows of two codes", "[merge]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  Result other = row("h2o", 0.75, 8);
  other.policy_code = "another";
  write(folder / "a.sqlite", {row("lru")});
  write(folder / "b.sqlite", {row("h2o"), other});
  CHECK(merge_results({folder / "a.sqlite", folder / "b.sqlite"}, folder / "ab.sqlite").parts == 2);
  write(folder / "a.sqlite", {row("h2o")});
  CHECK_THAT(refusal(folder), Contains("policy_code code") && Contains("with another"));
}

TEST_CASE("merge: one run that two files tell differently is refused", "[merge]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  {
    ResultStore store(folder / "a.sqlite", Access::write);
    store.begin_run({.command = "kvsim sweep", .device = "cpu", .threads = 1});
  }
  std::filesystem::copy_file(folder / "a.sqlite", folder / "b.sqlite");
  rewrite(folder / "b.sqlite", "UPDATE run SET threads = 2, seconds = 9");
  CHECK_THAT(refusal(folder), Contains("table run") && Contains("threads is 1 in"));
}

/// Columns of a table of b.sqlite, and what is found of it.
struct Sizes {
  std::string columns;
  std::string found;
};

TEST_CASE("merge: tables of the same name with other keys or columns are refused", "[merge]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  const auto a = write(folder / "a.sqlite", {row("h2o")});
  const auto b = write(folder / "b.sqlite", {row("lru")});
  edit(a, "CREATE TABLE sizes (x TEXT, y TEXT, z REAL, PRIMARY KEY (x, y)) WITHOUT ROWID");
  const auto given = GENERATE(
      Sizes{"x TEXT, y TEXT, z REAL, PRIMARY KEY (y, x)",
            "its key is (x, y) in {} and (y, x) in {}"},
      Sizes{"x TEXT, y TEXT, z INTEGER, PRIMARY KEY (x, y)",
            "the column z is REAL in {} and INTEGER in {}"},
      Sizes{"x TEXT, y TEXT, PRIMARY KEY (x, y)", "{} has the column z, which that of {} lacks"});
  edit(b, fmt::format("CREATE TABLE sizes ({}) WITHOUT ROWID", given.columns));
  const std::string forward = names(folder, given.found, "a.sqlite", "b.sqlite");
  try {
    merge_results({b, a}, folder / "ab.sqlite");
    FAIL("it was not refused");
  } catch (const DataError& error) {
    CHECK_THAT(error.what(), Contains("table sizes: " + forward));
  }
  CHECK_THAT(refusal(folder), Contains(a.string()) && Contains(b.string()));
}

TEST_CASE("merge: a column that this version does not know is refused", "[merge]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  write(folder / "a.sqlite", {row("h2o")});
  write(folder / "b.sqlite", {row("lru")});
  edit(folder / "b.sqlite", "ALTER TABLE replay ADD COLUMN later REAL");
  CHECK_THAT(refusal(folder),
             Contains((folder / "b.sqlite").string() +
                      " has the column later, which that of this version of kvsim lacks"));
}

TEST_CASE("merge: what is no result file is refused", "[merge]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  write(folder / "a.sqlite", {row("h2o")});
  const auto b = folder / "b.sqlite";
  SECTION("it is not there") {
    CHECK_THAT(refusal(folder),
               Contains(b.string() + ": expected a result file, found no such file"));
  }
  SECTION("another format") {
    std::ofstream(b) << "these are no numbers, and there are more than sixteen characters";
    CHECK_THAT(refusal(folder), Contains(b.string() + ": expected a result file"));
  }
  SECTION("empty") {
    std::ofstream(b).flush();
    CHECK_THAT(refusal(folder), Contains(b.string() + ": expected a result file, found an empty"));
  }
  SECTION("another database") {
    SQLite::Database(b, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
        .exec("CREATE TABLE people (name TEXT PRIMARY KEY)");
    CHECK_THAT(refusal(folder), Contains(b.string() + ": expected a result file, found one without "
                                                      "a table replay"));
  }
  SECTION("a table without a key") {
    write(b, {row("lru")});
    edit(b, "CREATE TABLE notes (text TEXT)");
    CHECK_THAT(refusal(folder), Contains(b.string() + ": expected tables with a primary key, found "
                                                      "notes without one"));
  }
}

TEST_CASE("merge: an output that is no result file stays as it is", "[merge]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  const auto part = write(folder / "a.sqlite", {row("h2o")});
  const auto notes = folder / "notes.txt";
  std::ofstream(notes) << "these are no numbers, and there are more than sixteen characters";
  const std::string before = bytes(notes);
  CHECK_THROWS_AS(merge_results({part}, notes), DataError);
  CHECK(bytes(notes) == before);
  CHECK_THROWS_AS(merge_results({}, folder / "all.sqlite"), UsageError);
  CHECK_THROWS_AS(merge_results({part}, ""), UsageError);
}

TEST_CASE("merge: a policy above what a row of another file proves is refused", "[merge]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  const auto current = [](const std::string& spec, double recall) {
    const Spec policy(spec);
    Result result = row(policy.text(), recall);
    result.policy_code = policy_code(policy);
    return result;
  };
  write(folder / "a.sqlite", {current("window", 0.8)});
  write(folder / "b.sqlite", {current("optimal", 0.7)});
  CHECK_THAT(refusal(folder),
             Contains(names(folder,
                            "{} and {}: text layer 0 KV head 0 at budget 4: window retains "
                            "0.8",
                            "a.sqlite", "b.sqlite")));
  // Rows of another code say nothing about it.
  rewrite(folder / "b.sqlite", "UPDATE replay SET policy_code = 'another'");
  CHECK(merge_results({folder / "a.sqlite", folder / "b.sqlite"}, folder / "ab.sqlite").parts == 2);
}

}  // namespace kvsim::results_test::merge_refusals_test
