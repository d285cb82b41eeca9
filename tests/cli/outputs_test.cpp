#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::outputs_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

/// Runs the program where no file may grow beyond so many bytes.
Ended run_with_limit(const TemporaryFolder& folder, rlim_t bytes,
                     const std::vector<std::string>& arguments) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit{bytes, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  const int process = start(folder.path(), arguments);
  setrlimit(RLIMIT_FSIZE, &before);
  return wait(folder.path(), process);
}

/// One line of error, which is the last.
void check_refused(const Ended& ended, const std::string& message) {
  INFO(ended.err);
  CHECK(ended.status == 1);
  const std::size_t error = ended.err.find("kvsim: error: ");
  REQUIRE(error != std::string::npos);
  CHECK_THAT(ended.err.substr(error), Contains(message));
  CHECK(ended.err.find('\n', error) == ended.err.size() - 1);
}

TEST_CASE("cli: several synths of one file leave one complete file, that of one of them") {
  const TemporaryFolder folder;
  const auto seeded = [](int seed, const std::string& file) {
    return std::vector<std::string>{"synth",    "-o", file,     "--tokens",           "300",
                                    "--layers", "2",  "--seed", std::to_string(seed), "--quiet"};
  };
  const auto bytes = [&](const std::string& name) {
    std::ifstream file(folder / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);
  std::vector<int> processes;
  for (int seed = 0; seed < 5; ++seed) {
    REQUIRE(run(folder.path(), seeded(seed, std::to_string(seed))).status == 0);
    processes.push_back(start(folder.path(), seeded(seed, "t.h5")));
  }
  for (const int process : processes) CHECK(wait(folder.path(), process).status == 0);
  unsetenv("HDF5_USE_FILE_LOCKING");
  int equal = 0;
  for (int seed = 0; seed < 5; ++seed) equal += bytes("t.h5") == bytes(std::to_string(seed));
  CHECK(equal == 1);
  CHECK(folder.num_partial("t.h5") == 0);
}

TEST_CASE("cli: a limit on the size of files ends a verb in a line, and finished rows stay") {
  const TemporaryFolder folder;
  REQUIRE(run(folder.path(), {"synth", "-o", "t.h5", "--tokens", "200", "--layers", "2"}).status ==
          0);
  const auto refused = [&](rlim_t limit, const std::vector<std::string>& arguments) {
    check_refused(run_with_limit(folder, limit, arguments), "(ulimit -f)");
  };
  refused(500000, {"synth", "-o", "s.h5", "--tokens", "200"});
  CHECK_FALSE(std::filesystem::exists(folder / "s.h5"));
  CHECK(folder.num_partial("s.h5") == 0);
  refused(500000,
          {"replay", "t.h5", "--policy", "window", "--budget", "10%", "--per-step", "p.h5"});
  CHECK(folder.num_partial("p.h5") == 0);
  refused(40000, {"curve", "t.h5", "--policies", "window", "-o", "r.sqlite"});
  refused(40000, {"analyze", "t.h5", "--what", "attention-maps", "-o", "r.sqlite"});

  const std::vector<std::string> sweep = {
      "sweep",    "t.h5", "--policies", "window;h2o;lru;tova", "--budgets",
      "5..104:1", "-o",   "s.sqlite",   "--threads",           "1"};
  refused(200000, sweep);
  const Ended again = run(folder.path(), sweep);
  CHECK(again.status == 0);
  CHECK_THAT(again.err, !Contains(", 0 done before"));
}

TEST_CASE("cli: a full disk ends what is printed in a line") {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("/dev/full", folder / "out");
  check_refused(run(folder.path(), {"policies"}), "cannot write to standard output");
  std::filesystem::remove(folder / "out");
  check_refused(run(folder.path(), {"synth", "-o", "/dev/full"}), "/dev/full: cannot be written");
}

}  // namespace kvsim::cli_test::outputs_test
