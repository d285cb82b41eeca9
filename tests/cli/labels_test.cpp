#include <stdlib.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::labels_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

/// A folder with an interpreter that prints its arguments and ends with status 3, which
/// KVSIM_PYTHON names for the lifetime of the object.
class Interpreter {
 public:
  explicit Interpreter(const TemporaryFolder& folder) {
    const std::filesystem::path file = folder.path() / "python";
    std::ofstream(file) << "#!/bin/sh\n"
                           "[ \"$1\" = -c ] && exit 0\n"
                           "echo \"$@\"\n"
                           "exit 3\n";
    std::filesystem::permissions(file, std::filesystem::perms::all);
    setenv("KVSIM_PYTHON", file.c_str(), 1);
  }
  ~Interpreter() { unsetenv("KVSIM_PYTHON"); }
};

TEST_CASE("cli: labels hands its arguments to the package and ends with its status") {
  const TemporaryFolder folder;
  const Interpreter ours(folder);
  const Ended ended = run(folder.path(), {"labels", sample_trace(), "-o", "l.npz", "--budgets",
                                          "10%,64", "--block", "32", "-q"});
  CHECK(ended.status == 3);
  CHECK(ended.out ==
        "-m kvsim.labels " + sample_trace() + " -o l.npz --budgets 10%,64 --block 32 -q\n");

  std::ofstream(folder.path() / "l.yaml")
      << "trace: " << sample_trace() << "\noutput: l.npz\nbudgets: [10%, 64]\nthreads: 2\n";
  const Ended configured = run(folder.path(), {"labels", "--config", "l.yaml", "--quiet"});
  CHECK(configured.out == "-m kvsim.labels " + sample_trace() +
                              " --budgets 10% --budgets 64 --output l.npz --quiet --threads 2\n");
}

TEST_CASE("cli: labels of no trace, or to no file, are refused before Python is asked") {
  const TemporaryFolder folder;
  const Interpreter ours(folder);
  CHECK(run(folder.path(), {"labels", "none.h5", "-o", "l.npz"}).status == 3);
  CHECK(run(folder.path(), {"labels", "none.h5", "-o", "l.npz"}).out.empty());
  const Ended nowhere = run(folder.path(), {"labels", sample_trace()});
  CHECK(nowhere.status == 2);
  CHECK_THAT(nowhere.err, Contains("expected --output"));
  CHECK(run(folder.path(), {"labels", sample_trace(), "-o", "l.npz", "--budget", "5"}).status == 2);
}

TEST_CASE("cli: labels without the package says what to install") {
  const TemporaryFolder folder;
  setenv("KVSIM_PYTHON", "false", 1);
  const Ended ended = run(folder.path(), {"labels", sample_trace(), "-o", "l.npz"});
  unsetenv("KVSIM_PYTHON");
  CHECK(ended.status == 1);
  CHECK_THAT(ended.err, Contains("cannot import kvsim.labels") && Contains("pip install ."));
}

TEST_CASE("cli: the help of labels defines every label") {
  const TemporaryFolder folder;
  const std::string help = run(folder.path(), {"labels", "--help"}).out;
  for (const char* name : {"future_attention", "future_attention_blocks", "optimal_evicted_after",
                           "next_access", "slot_price"}) {
    CHECK_THAT(help, Contains(name));
  }
}

}  // namespace kvsim::cli_test::labels_test
