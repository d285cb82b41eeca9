#include <SQLiteCpp/SQLiteCpp.h>
#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "tests/cli/program.h"
#include "tests/support/hdf5_edit.h"
#include "tests/support/nightly.h"
#include "tests/support/temporary_folder.h"
#include "traces/synth/synth.h"

namespace kvsim::cli_test::sweep_test {

using traces_test::TemporaryFolder;

// Eight policies of scope head at two budgets: a unit's rows are committed together.
constexpr int kRowsPerUnit = 8 * 2;
const std::vector<std::string> kSweep{
    "sweep",     "trace.h5", "--policies", "full;window;sink;random;h2o;scissorhands;topk;subgen",
    "--budgets", "5%,20%",   "-o",         "results.sqlite"};

/// Layers of a trace that is long enough to stop a sweep of it.
int many_layers() { return test_support::is_watched() ? 8 : 24; }

std::vector<std::string> with(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

void write_trace(const TemporaryFolder& folder, int layers) {
  SynthOptions options;
  options.tokens = 400;
  options.layers = layers;
  options.head_dim = 16;
  options.output = false;
  synthesize(folder.path() / "trace.h5", options);
}

std::string exported(const TemporaryFolder& folder) {
  return run(folder.path(), {"export", "results.sqlite", "--without", "run_id"}).out;
}

int num_rows(const TemporaryFolder& folder) {
  try {
    SQLite::Database database(folder.path() / "results.sqlite", SQLite::OPEN_READWRITE);
    return database.execAndGet("SELECT count(*) FROM replay").getInt();
  } catch (const SQLite::Exception&) {
    return 0;  // missing yet, or being written
  }
}

/// Starts a sweep and sends it `signal` as soon as it has stored a row.
Ended stop_in_the_middle(const TemporaryFolder& folder, int signal) {
  const int process = start(folder.path(), with(kSweep, {"--threads", "1"}));
  while (num_rows(folder) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  kill(process, signal);
  return wait(folder.path(), process);
}

TEST_CASE("cli: a sweep that is killed goes on where it was, losing and repeating nothing") {
  const TemporaryFolder folder;
  write_trace(folder, many_layers());
  const Ended uninterrupted = run(folder.path(), kSweep);
  REQUIRE(uninterrupted.status == 0);
  const std::string expected = exported(folder);
  std::filesystem::remove(folder.path() / "results.sqlite");

  CHECK(stop_in_the_middle(folder, SIGKILL).status == -SIGKILL);
  const int kept = num_rows(folder);
  const int all = many_layers() * 2 * kRowsPerUnit;
  CHECK(kept > 0);
  REQUIRE(kept < all);
  const Ended resumed = run(folder.path(), kSweep);
  CHECK(resumed.status == 0);
  CHECK_THAT(resumed.err, Catch::Contains(std::to_string(kept) + " done before"));
  CHECK(exported(folder) == expected);
  CHECK(resumed.out == uninterrupted.out);

  const Ended again = run(folder.path(), kSweep);
  CHECK_THAT(again.err, Catch::Contains(std::to_string(all) + " done before"));
  CHECK(again.out == uninterrupted.out);
}

TEST_CASE("cli: Ctrl-C and SIGTERM end a sweep with status 1 and keep what is finished") {
  const TemporaryFolder folder;
  write_trace(folder, many_layers());
  const Ended ended = stop_in_the_middle(folder, GENERATE(SIGINT, SIGTERM));
  CHECK(ended.status == 1);
  CHECK_THAT(ended.err, Catch::Contains("kvsim: error: interrupted after") &&
                            Catch::Contains("the same command does the rest"));
  CHECK(num_rows(folder) > 0);
  CHECK(num_rows(folder) % kRowsPerUnit == 0);
}

TEST_CASE("cli: results are the same bytes with one thread and with two") {
  const TemporaryFolder folder;
  write_trace(folder, 3);
  REQUIRE(run(folder.path(), with(kSweep, {"--threads", "1"})).status == 0);
  const std::string one = exported(folder);
  std::filesystem::remove(folder.path() / "results.sqlite");
  REQUIRE(run(folder.path(), with(kSweep, {"--threads", "2"})).status == 0);
  CHECK(exported(folder) == one);
}

TEST_CASE("cli: a bad number in one layer ends a sweep but keeps the layers before it") {
  const TemporaryFolder folder;
  write_trace(folder, 2);
  {
    const H5::H5File file((folder.path() / "trace.h5").string(), H5F_ACC_RDWR);
    traces_test::set_number(file, "/sequences/synthetic/layers/1/key", {1, 7, 3},
                            std::numeric_limits<float>::quiet_NaN());
  }
  const Ended ended = run(folder.path(), with(kSweep, {"--threads", "1", "--quiet"}));
  CHECK(ended.status == 3);
  CHECK_THAT(ended.err,
             Catch::Contains("/sequences/synthetic/layers/1/key") && Catch::Contains("[1, 7, 3]"));
  CHECK(num_rows(folder) == 3 * kRowsPerUnit);
}

}  // namespace kvsim::cli_test::sweep_test
