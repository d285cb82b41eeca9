#include "sim/results/merge/merge.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "sim/results/closed_loop_table.h"
#include "tests/results/result_files.h"
#include "tests/support/unsynced_files.h"

namespace kvsim::results_test::merge_test {

using test_support::UnsyncedFiles;
using traces_test::TemporaryFolder;

TableSchema plugin_schema() {
  return {"colours",
          "a colour",
          "a plug-in",
          {text_column("name", "of the colour").key(), real_column("wavelength", "in nm")}};
}

void add_colour(const std::filesystem::path& file, const std::string& name, double wavelength) {
  const TableSchema schema = plugin_schema();
  ResultStore store(file, Access::write);
  store.create(schema);
  store.replace({{&schema, {{name, wavelength}}}});
}

void add_closed_loop(const std::filesystem::path& file, const std::string& sequence) {
  const TableSchema schema = closed_loop_schema();
  std::vector<Value> values(schema.columns.size(), std::monostate());
  for (std::size_t i = 0; schema.columns[i].is_key; ++i) {
    const bool is_number = schema.columns[i].type == ColumnSchema::Type::integer;
    values[i] = is_number ? Value(std::int64_t{1}) : Value(std::string("x"));
  }
  values[1] = sequence;
  ResultStore store(file, Access::write);
  store.create(schema);
  store.replace({{&schema, {values}}});
}

TEST_CASE("merge: all tables are joined, also those that only some parts have", "[merge]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  const auto a = write(folder / "a.sqlite", {row("h2o"), row("window", 0.25)});
  const auto b = write(folder / "b.sqlite", {row("lru")});
  add_colour(a, "red", 700);
  add_colour(b, "blue", 450);
  add_closed_loop(b, "one");
  ResultStore(b, Access::write).add({row("certificate")}, {{row("certificate"), {.loss = 2}}});
  const auto both = folder / "both.sqlite";
  const Merged merged = merge_results({a, b}, both);
  CHECK(merged.parts == 2);
  CHECK(column(both, "replay", "policy") ==
        std::vector<Value>{std::string("certificate"), std::string("h2o"), std::string("lru"),
                           std::string("window")});
  CHECK(table(both, "colours").rows ==
        std::vector<std::vector<Value>>{{std::string("blue"), 450.0, std::monostate()},
                                        {std::string("red"), 700.0, std::monostate()}});
  CHECK(table(both, "certificate").rows == table(b, "certificate").rows);
  CHECK(table(both, "closed_loop").rows == table(b, "closed_loop").rows);
  CHECK(table(both, "regret").columns == table(a, "regret").columns);
  const auto found = std::find_if(merged.tables.begin(), merged.tables.end(),
                                  [](const MergedTable& each) { return each.name == "replay"; });
  CHECK(found->rows == 4);
  CHECK(found->added == 4);
}

TEST_CASE("merge: an equal row is kept once, with trace and run of the earlier run", "[merge]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  Result early = row("h2o");
  early.run_id = "2026-01";
  early.trace = "here/t.h5";
  Result late = row("h2o");
  late.run_id = "2026-02";
  late.trace = "a/t.h5";
  const auto a = write(folder / "a.sqlite", {early});
  const auto b = write(folder / "b.sqlite", {late});
  merge_results({a, b}, folder / "ab.sqlite");
  merge_results({b, a}, folder / "ba.sqlite");
  CHECK(table(folder / "ab.sqlite", "replay").rows == table(a, "replay").rows);
  CHECK(table(folder / "ba.sqlite", "replay").rows == table(a, "replay").rows);
}

TEST_CASE("merge: what the output holds takes part, so merges can be merged", "[merge]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  std::vector<std::filesystem::path> parts;
  for (const char* policy : {"h2o", "lru", "tova", "window"}) {
    parts.push_back(write(folder / std::string(policy), {row(policy), row("full", 1)}));
  }
  const auto all = folder / "all.sqlite";
  merge_results(parts, all);
  const auto left = folder / "left.sqlite";
  const auto right = folder / "right.sqlite";
  merge_results({parts[3], parts[0]}, left);
  merge_results({parts[1]}, right);
  merge_results({parts[2]}, right);
  const Merged merged = merge_results({left}, right);
  CHECK(merged.parts == 1);
  CHECK(table(right, "replay").rows == table(all, "replay").rows);
  const std::string before = bytes(right);
  CHECK(merge_results({right, left, left}, right).parts == 1);  // itself, and one twice
  CHECK(bytes(right) == before);
}

TEST_CASE("merge: no label and a label are that label", "[merge]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  Result labelled = row("h2o");
  labelled.label = "mine";
  const auto a = write(folder / "a.sqlite", {row("h2o")});
  const auto b = write(folder / "b.sqlite", {labelled});
  for (const auto& parts : {std::vector{a, b}, std::vector{b, a}}) {
    const TemporaryFolder output;
    merge_results(parts, output / "all.sqlite");
    CHECK(column(output / "all.sqlite", "replay", "label") ==
          std::vector<Value>{std::string("mine")});
  }
}

TEST_CASE("merge: a run that was read before and after its end is the later one", "[merge]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  const auto during = folder / "during.sqlite";
  const auto after = folder / "after.sqlite";
  {
    ResultStore store(after, Access::write);
    store.begin_run({.command = "kvsim sweep", .device = "cpu", .threads = 1});
    store.add({row("h2o")});
    std::filesystem::copy_file(after, during);
    store.add({row("lru")});
    store.finish_run();
  }
  merge_results({during}, folder / "all.sqlite");
  merge_results({after, during}, folder / "all.sqlite");
  CHECK(table(folder / "all.sqlite", "run").rows == table(after, "run").rows);
  CHECK(table(folder / "all.sqlite", "replay").rows == table(after, "replay").rows);
}

TEST_CASE("merge: texts of about are those of the file with the later run", "[merge]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  std::vector<std::filesystem::path> parts;
  for (const std::string run : {"2026-01", "2026-03", "2026-02"}) {
    const auto part = write(folder / run, {row("h2o")});
    add_colour(part, "red", 700);
    rewrite(part, "UPDATE about SET meaning = 'as of " + run + "' WHERE column_name = 'name'");
    ResultStore store(part, Access::write);
    store.begin_run({.command = "kvsim analyze", .device = "cpu", .threads = 1});
    rewrite(part, "UPDATE run SET run_id = '" + run + "'");
    parts.push_back(part);
  }
  std::sort(parts.begin(), parts.end());
  do {
    const TemporaryFolder output;
    merge_results(parts, output / "all.sqlite");
    CHECK(table(output / "all.sqlite", "about").rows == table(folder / "2026-03", "about").rows);
  } while (std::next_permutation(parts.begin(), parts.end()));
}

TEST_CASE("merge: parts of an earlier version lack what it lacked", "[merge]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  const auto present = write(folder / "present.sqlite", {row("h2o")});
  const auto earlier = write(folder / "earlier.sqlite", {row("lru")});
  rewrite(earlier, "DROP VIEW regret");
  for (const char* name : {"label", "ties", "output_error_sq", "policy_code", "run_id"}) {
    rewrite(earlier, fmt::format("ALTER TABLE replay DROP COLUMN {}", name));
  }
  const auto fresh = folder / "fresh.sqlite";
  merge_results({earlier, present}, fresh);
  CHECK(table(fresh, "replay").columns == table(present, "replay").columns);
  CHECK(column(fresh, "replay", "policy_code") ==
        std::vector<Value>{std::string("code"), std::string()});
  CHECK(column(fresh, "replay", "output_error_sq") == std::vector<Value>{0.0, std::monostate()});

  merge_results({present}, earlier);  // and one takes the columns, as from a writer
  CHECK(column(earlier, "replay", "policy") ==
        std::vector<Value>{std::string("h2o"), std::string("lru")});
  CHECK(column(earlier, "replay", "run_id") ==
        std::vector<Value>{std::string("run"), std::monostate()});
}

TEST_CASE("merge: an end from outside leaves the output as it was", "[merge]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  const auto a = write(folder / "a.sqlite", {row("h2o")});
  const auto b = write(folder / "b.sqlite", {row("lru")});
  const auto all = write(folder / "all.sqlite", {row("window")});
  const std::string before = bytes(all);
  const auto stop = [](std::size_t done) {
    if (done == 1) throw std::runtime_error("stop");
  };
  CHECK_THROWS_WITH(merge_results({a, b}, all, stop), "stop");
  CHECK(bytes(all) == before);
  CHECK_THROWS_WITH(merge_results({a, b}, folder / "new.sqlite", stop), "stop");
  CHECK_FALSE(std::filesystem::exists(folder / "new.sqlite"));
}

TEST_CASE("merge: an output on a shared disk is written on a local one, and what fails is an error",
          "[merge]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  const auto a = write(folder / "a.sqlite", {row("h2o")});
  const auto b = write(folder / "b.sqlite", {row("lru")});
  const auto shared = folder / "shared";
  std::filesystem::create_directory(shared);
  const Scratch scratch{.folder = folder / "local", .tell = {}};
  merge_results({a}, shared / "all.sqlite", {}, scratch);
  CHECK(column(shared / "all.sqlite", "replay", "policy").size() == 1);
  CHECK(std::filesystem::is_empty(scratch.folder));
  const MergeProgress remove_the_place = [&](std::size_t) { std::filesystem::remove_all(shared); };
  CHECK_THROWS_WITH(
      merge_results({b}, shared / "all.sqlite", remove_the_place, scratch),
      Catch::Contains("all.sqlite: cannot be written") && Catch::Contains(scratch.folder.string()));
}

TEST_CASE("merge: one that is killed leaves the output as it was, and can be done again",
          "[merge]") {
  const TemporaryFolder folder;
  const auto a = write(folder / "a.sqlite", {row("h2o")});
  const auto b = write(folder / "b.sqlite", {row("lru")});
  const auto all = write(folder / "all.sqlite", {row("window")});
  const auto before = table(all, "replay").rows;
  const pid_t child = fork();
  if (child == 0) {
    merge_results({a, b}, all, [](std::size_t done) {
      if (done == 2) std::_Exit(0);
    });
    std::_Exit(1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  CHECK(table(all, "replay").rows == before);
  merge_results({a, b}, all);
  CHECK(table(all, "replay").rows.size() == 3);
}

TEST_CASE("merge: shards without a run, and runs without an end, are named by command", "[merge]") {
  const UnsyncedFiles unsynced;
  const TemporaryFolder folder;
  const auto begin = [&](const std::string& command, const std::string& shard,
                         const std::string& study, bool finish) {
    ResultStore store(folder / "r.sqlite", Access::write);
    store.begin_run(
        {.command = command, .device = "cpu", .threads = 1, .shard = shard, .study = study});
    if (finish) store.finish_run();
  };
  for (const char* shard : {"2/16", "8/16", "9/16", "16/16"}) {
    begin(fmt::format("kvsim sweep t.h5 --shard {} -o {}.sqlite", shard, shard[0]), shard, "a",
          true);
  }
  begin("kvsim sweep t.h5 --shard 10/16", "10/16", "a", false);
  begin("kvsim.curve('t.h5', policies='window', shard='1/2')", "1/2", "b", false);
  begin("kvsim.curve('t.h5', policies='window', shard='1/2')", "1/2", "b", false);
  begin("kvsim.curve('t.h5', policies='window', shard='2/2')", "2/2", "b", true);
  begin("kvsim analyze", "", "", false);  // all of its work: no shard is missing
  begin("kvsim analyze t.h5 --shard=1/1", "1/1", "c", false);
  begin("kvsim analyze t.h5 --shard=1/1", "1/1", "c", true);  // again, to the end
  CHECK(merge_results({folder / "r.sqlite"}, folder / "all.sqlite").missing ==
        std::vector<std::string>{
            "missing shards 1, 3-7, 11-15 of 16 of 'kvsim sweep t.h5 -o 2.sqlite'",
            "shard 10 of 16 of 'kvsim sweep t.h5 -o 2.sqlite' was not finished: run it again, "
            "then merge again",
            "shard 1 of 2 of 'kvsim.curve('t.h5', policies='window')' was not finished: run it "
            "again, then merge again"});
}

}  // namespace kvsim::results_test::merge_test
