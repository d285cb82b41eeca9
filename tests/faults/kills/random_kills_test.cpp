#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "tests/cli/program.h"
#include "tests/faults/calls/failing_program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/trace_files.h"

namespace kvsim::faults::random_kills_test {

using std::chrono::microseconds;
using std::chrono::steady_clock;
using traces_test::TemporaryFolder;

const std::vector<std::string> kSweep{"sweep",     "t.h5",      "--policies", "window;h2o;lfu",
                                      "--budgets", "4,8,12,16", "-o",         "results.sqlite"};

TEST_CASE("faults: a sweep that is killed at random moments ends with the same rows") {
  const TemporaryFolder folder;
  test_support::write_random_trace(folder / "t.h5", 1);
  const auto start_time = steady_clock::now();
  REQUIRE(cli_test::run(folder.path(), kSweep).status == 0);
  const auto duration = std::chrono::duration_cast<microseconds>(steady_clock::now() - start_time);
  const std::string expected = contents(folder.path(), "results.sqlite");
  REQUIRE_FALSE(expected.empty());

  std::mt19937 random(1);
  std::uniform_int_distribution<std::int64_t> moment(0, duration.count());
  const int rounds = stride_of(2) == 1 ? 100 : 4;
  for (int round = 0; round < rounds; ++round) {
    INFO("round " << round);
    std::filesystem::remove(folder / "results.sqlite");
    std::filesystem::remove(folder / "results.sqlite-journal");
    for (int kills = 0; kills < 4; ++kills) {
      const int process = cli_test::start(folder.path(), kSweep);
      std::this_thread::sleep_for(microseconds(moment(random)));
      kill(process, SIGKILL);
      const int status = cli_test::wait(folder.path(), process).status;
      REQUIRE((status == -SIGKILL || status == 0));
    }
    CHECK(cli_test::run(folder.path(), kSweep).status == 0);
    REQUIRE((contents(folder.path(), "results.sqlite") == expected));
  }
}

}  // namespace kvsim::faults::random_kills_test
