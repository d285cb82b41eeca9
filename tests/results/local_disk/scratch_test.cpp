#include "sim/results/local_disk/scratch.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <optional>

#include "sim/base/errors.h"
#include "sim/results/local_disk/file_system.h"
#include "sim/results/run.h"
#include "sim/results/store.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::scratch_test {

using traces_test::TemporaryFolder;
using Access = ResultStore::Access;

Result row(const std::string& policy) {
  Result result;
  result.trace_id = std::string("id");
  result.sequence = std::string("text");
  result.policy = policy;
  result.budget = 10;
  result.mode = std::string("stream");
  return result;
}

std::vector<std::string> policies_of(const std::filesystem::path& file) {
  return ResultStore(file, Access::read).policies();
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// A folder for the result file r.sqlite and one for its local copy.
struct Place {
  TemporaryFolder folder;
  std::filesystem::path shared = folder / "shared";
  std::filesystem::path local = folder / "local";
  std::filesystem::path file = shared / "r.sqlite";
  std::vector<std::string> messages;

  Place() { std::filesystem::create_directory(shared); }

  Scratch scratch(std::chrono::milliseconds interval = std::chrono::minutes(1)) {
    return {local, [this](const std::string& line) { messages.push_back(line); }, interval};
  }
};

TEST_CASE("a file is written on the local disk and comes to its place whole", "[scratch]") {
  Place place;
  {
    ResultStore store(place.file, Access::write, place.scratch());
    store.begin_run({.command = "kvsim sweep", .device = "cpu", .threads = 1});
    store.add({row("h2o")});
    CHECK(names_in(place.shared).empty());
    CHECK(names_in(place.local).size() == 1);
    store.finish_run();
    CHECK(policies_of(place.file) == std::vector<std::string>{"h2o"});
    CHECK(store.policies() == std::vector<std::string>{"h2o"});
  }
  CHECK(names_in(place.shared) == std::vector<std::string>{"r.sqlite"});
  CHECK(names_in(place.local).empty());
  CHECK(place.messages.empty());
}

TEST_CASE("a local copy begins with the rows of its file", "[scratch]") {
  Place place;
  ResultStore(place.file, Access::write).add({row("h2o")});
  {
    ResultStore store(place.file, Access::write, place.scratch());
    CHECK(store.policies() == std::vector<std::string>{"h2o"});
    store.add({row("tova")});
    CHECK(policies_of(place.file) == std::vector<std::string>{"h2o"});
  }
  CHECK(policies_of(place.file) == std::vector<std::string>{"h2o", "tova"});
  CHECK(place.messages.empty());
}

TEST_CASE("new rows come to the place of the file now and then", "[scratch]") {
  Place place;
  using std::chrono::milliseconds;
  ResultStore store(place.file, Access::write, place.scratch(milliseconds(0)));
  for (const char* policy : {"a", "b", "c"}) {
    store.add({row(policy)});
    // Publishing takes at most a tenth of the time.
    while (!std::filesystem::exists(place.file) || policies_of(place.file).back() != policy) {
      store.add({row(policy)});
    }
  }
  CHECK(policies_of(place.file).size() == 3);
  CHECK(names_in(place.shared) == std::vector<std::string>{"r.sqlite"});
}

TEST_CASE("a file to which nothing is added stays as it is", "[scratch]") {
  Place place;
  ResultStore(place.file, Access::write).add({row("h2o")});
  const auto written = std::filesystem::last_write_time(place.file);
  { ResultStore store(place.file, Access::write, place.scratch()); }
  CHECK(std::filesystem::last_write_time(place.file) == written);
  CHECK(names_in(place.local).empty());
}

TEST_CASE("a file that another program changed is not overwritten", "[scratch]") {
  Place place;
  const bool was_there = GENERATE(false, true);
  if (was_there) ResultStore(place.file, Access::write).add({row("h2o")});
  std::optional<ResultStore> store(std::in_place, place.file, Access::write, place.scratch());
  store->add({row("tova")});
  ResultStore(place.file, Access::write).add({row("window")});
  const std::filesystem::path other = store->keep();
  CHECK(other != place.file);
  CHECK(policies_of(place.file).back() == "window");
  CHECK(policies_of(other).back() == "tova");
  REQUIRE(place.messages.size() == 1);
  CHECK_THAT(place.messages[0], Catch::Contains(other.string()) && Catch::Contains("kvsim merge"));
  store->add({row("sink")});
  store.reset();
  CHECK(policies_of(other).back() == "tova");
  CHECK(policies_of(other).size() == (was_there ? 3 : 2));
  CHECK(names_in(place.shared).size() == 2);
  CHECK(place.messages.size() == 1);
}

TEST_CASE("rows that cannot come to their place stay on the local disk, which a line names",
          "[scratch]") {
  Place place;
  std::string local;
  {
    ResultStore store(place.file, Access::write, place.scratch());
    store.add({row("h2o")});
    std::filesystem::remove_all(place.shared);
    try {
      store.finish_run();
      FAIL("the folder is gone");
    } catch (const std::runtime_error& error) {
      CHECK_THAT(error.what(), Catch::StartsWith(place.file.string() + ": cannot be written: No "));
      local = error.what();
    }
  }
  CHECK(place.messages.empty());  // the error did
  REQUIRE(names_in(place.local).size() == 1);
  const auto kept = place.local / names_in(place.local)[0] / "r.sqlite";
  CHECK_THAT(local, Catch::Contains(kept.string()));
  CHECK(policies_of(kept) == std::vector<std::string>{"h2o"});

  // The next command brings them there.
  std::filesystem::create_directory(place.shared);
  { ResultStore store(place.file, Access::write, place.scratch()); }
  CHECK(policies_of(place.file) == std::vector<std::string>{"h2o"});
  CHECK(names_in(place.local).empty());
}

TEST_CASE("what fails while a store is left without an end is reported", "[scratch]") {
  Place place;
  {
    ResultStore store(place.file, Access::write, place.scratch());
    store.add({row("h2o")});
    std::filesystem::remove_all(place.shared);
  }
  REQUIRE(place.messages.size() == 1);
  CHECK_THAT(place.messages[0], Catch::Contains("all rows are in " + place.local.string()));
}

TEST_CASE("a place that cannot be written fails before any work", "[scratch]") {
  Place place;
  CHECK_THROWS_WITH(ResultStore(place.shared / "none/r.sqlite", Access::write, place.scratch()),
                    Catch::Contains("none/r.sqlite: cannot be written: No such file or directory"));
  std::ofstream(place.folder / "file") << "x";
  const Scratch wrong{place.folder / "file/scratch", nullptr};
  CHECK_THROWS_AS(ResultStore(place.file, Access::write, wrong), UsageError);
}

TEST_CASE("a file that is no database is refused with scratch, too", "[scratch]") {
  Place place;
  std::ofstream(place.file) << std::string(5000, 'x');
  CHECK_THROWS_AS(ResultStore(place.file, Access::write, place.scratch()), DataError);
  CHECK(std::filesystem::file_size(place.file) == 5000);
  CHECK(names_in(place.local).empty());
}

TEST_CASE("two stores of a process share the local copy of a file", "[scratch]") {
  Place place;
  ResultStore first(place.file, Access::write, place.scratch());
  {
    ResultStore second(place.file, Access::write, place.scratch());
    first.add({row("h2o")});
    CHECK(second.policies() == std::vector<std::string>{"h2o"});
    second.add({row("tova")});
    second.finish_run();  // the first has the last word
  }
  CHECK(names_in(place.shared).empty());
  CHECK(first.keep() == place.file);
  CHECK(policies_of(place.file).size() == 2);
  CHECK(place.messages.empty());
}

TEST_CASE("result files have a rollback journal, never a write-ahead log", "[scratch]") {
  Place place;
  const bool local = GENERATE(false, true);
  const auto mode = [&] {
    SQLite::Database file(place.file, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    return file.execAndGet("PRAGMA journal_mode").getString();
  };
  const Scratch scratch = local ? place.scratch() : Scratch();
  ResultStore(place.file, Access::write, scratch).add({row("h2o")});
  CHECK(mode() == "delete");
  SQLite::Database(place.file, SQLite::OPEN_READWRITE).exec("PRAGMA journal_mode = WAL");
  CHECK(mode() == "wal");
  ResultStore(place.file, Access::write, scratch).add({row("tova")});
  CHECK(mode() == "delete");
}

TEST_CASE("file systems that machines share are known by their numbers", "[scratch]") {
  CHECK(network_file_system(0x6969U) == "NFS");
  CHECK(network_file_system(0x0BD00BD0U) == "Lustre");
  CHECK(network_file_system(0xFF534D42U) == "CIFS");
  CHECK(network_file_system(0xEF53U).empty());      // ext4
  CHECK(network_file_system(0x01021994U).empty());  // tmpfs
  CHECK(network_file_system(std::filesystem::path("/proc/self/none")).empty());
}

}  // namespace kvsim::scratch_test
