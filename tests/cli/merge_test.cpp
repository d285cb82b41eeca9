#include <catch2/catch.hpp>
#include <fstream>

#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::cli_test::merge_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

Ended sweep(const TemporaryFolder& folder, const std::string& file,
            const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{"sweep", "t.h5", "--policies", "window;h2o", "--budgets",
                                 "6",     "-q",   "-o",         file};
  words.insert(words.end(), more.begin(), more.end());
  return run(folder.path(), words);
}

std::string exported(const TemporaryFolder& folder, const std::string& file) {
  return run(folder.path(), {"export", file, "--without", "run_id,trace"}).out;
}

TEST_CASE("cli: merged shards are what the command without shards writes, row for row") {
  const TemporaryFolder folder;
  test_support::write_random_trace(folder / "t.h5", 1);
  sweep(folder, "one.sqlite");
  for (const char* shard : {"1/3", "2/3", "3/3"}) {
    REQUIRE(sweep(folder, {shard[0]}, {"--shard", shard}).status == 0);
  }
  const Ended merged = run(folder.path(), {"merge", "3", "1", "2", "-o", "all.sqlite"});
  CHECK(merged.status == 0);
  CHECK(merged.err.empty());
  CHECK_THAT(merged.out, Catch::Matches("table +rows +new\nreplay +16 +16\nrun +3 +3\n"
                                        "3 parts in all.sqlite\n"));
  CHECK(exported(folder, "all.sqlite") == exported(folder, "one.sqlite"));
  const auto compared = [&](const std::string& file) {
    return run(folder.path(), {"compare", file, "window", "h2o", "--format", "csv"}).out;
  };
  CHECK(compared("all.sqlite") == compared("one.sqlite"));
  // A sweep goes on in a merged file: there is nothing to do.
  CHECK(sweep(folder, "all.sqlite").status == 0);
  CHECK(exported(folder, "all.sqlite") == exported(folder, "one.sqlite"));
}

TEST_CASE("cli: merge names missing shards, and with --complete they are an error") {
  const TemporaryFolder folder;
  test_support::write_random_trace(folder / "t.h5", 1);
  for (const char* shard : {"1/4", "3/4"}) sweep(folder, {shard[0]}, {"--shard", shard});
  const std::string missing =
      "missing shards 2, 4 of 4 of 'kvsim sweep t.h5 --policies 'window;h2o' --budgets 6 -q -o 1'";
  const Ended some = run(folder.path(), {"merge", "1", "3", "-o", "all.sqlite"});
  CHECK(some.status == 0);
  CHECK(some.err == "kvsim: " + missing + "\n");
  CHECK(run(folder.path(), {"merge", "1", "3", "-o", "all.sqlite", "-q"}).err.empty());
  const Ended all = run(folder.path(), {"merge", "1", "3", "-o", "new.sqlite", "--complete"});
  CHECK(all.status == 3);
  CHECK(all.err ==
        "kvsim: error: new.sqlite is not complete, as --complete demands: " + missing + "\n");
  CHECK(exported(folder, "new.sqlite") == exported(folder, "all.sqlite"));
  sweep(folder, "2", {"--shard", "2/4"});
  sweep(folder, "4", {"--shard", "4/4"});
  CHECK(run(folder.path(), {"merge", "2", "4", "-o", "all.sqlite", "--complete"}).status == 0);
}

TEST_CASE("cli: merge refuses in one line, with the status of the error") {
  const TemporaryFolder folder;
  test_support::write_random_trace(folder / "t.h5", 1);
  sweep(folder, "a.sqlite");
  std::ofstream(folder / "text") << "these are no numbers, and more than sixteen characters";
  const auto refused = [&](const std::vector<std::string>& words, int status,
                           const std::string& line) {
    std::vector<std::string> merge{"merge"};
    merge.insert(merge.end(), words.begin(), words.end());
    const Ended ended = run(folder.path(), merge);
    CHECK(ended.status == status);
    CHECK_THAT(ended.err,
               Catch::StartsWith("kvsim: error: ") && Contains(line) && Catch::Matches("[^\n]*\n"));
  };
  refused({"-o", "all.sqlite"}, 2, "expected a PART");
  refused({"a.sqlite"}, 2, "--output");
  refused({"a.sqlite", "b.sqlite", "-o", "all.sqlite"}, 3,
          "b.sqlite: expected a result file, found no such file");
  refused({"text", "a.sqlite", "-o", "all.sqlite"}, 3, "text: expected a result file");
  CHECK_FALSE(std::filesystem::exists(folder / "all.sqlite"));
}

}  // namespace kvsim::cli_test::merge_test
