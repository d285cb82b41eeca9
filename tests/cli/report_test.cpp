#include <stdlib.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "sim/results/version.h"
#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::report_test {

using Catch::Contains;
using traces_test::TemporaryFolder;

/// Sets KVSIM_PYTHON to `interpreter` for the lifetime of the object.
class Interpreter {
 public:
  explicit Interpreter(const std::string& interpreter) {
    setenv("KVSIM_PYTHON", interpreter.c_str(), 1);
  }
  ~Interpreter() { unsetenv("KVSIM_PYTHON"); }
};

void write_results(const TemporaryFolder& folder) {
  run(folder.path(), {"sweep", sample_trace(), "--layers", "0", "--heads", "0", "--policies",
                      "window", "--budgets", "20", "-o", "r.sqlite", "-q"});
}

TEST_CASE("cli: a report without the Python package says what to install") {
  const TemporaryFolder folder;
  write_results(folder);
  const Interpreter fails("false");
  const Ended ended = run(folder.path(), {"report", "r.sqlite", "-o", "page"});
  CHECK(ended.status == 1);
  CHECK_THAT(ended.err, Contains("pip install ."));
}

TEST_CASE("cli: a report without Python says so") {
  const TemporaryFolder folder;
  write_results(folder);
  const Interpreter missing("no-such-interpreter");
  const Ended ended = run(folder.path(), {"report", "r.sqlite", "-o", "page"});
  CHECK(ended.status == 1);
  CHECK_THAT(ended.err, Contains("no-such-interpreter") && Contains("Python"));
}

TEST_CASE("cli: a report hands its arguments to the package and ends with its status") {
  const TemporaryFolder folder;
  write_results(folder);
  std::ofstream(folder.path() / "python") << "#!/bin/sh\n"
                                             "[ \"$1\" = -c ] && exit 0\n"
                                             "echo \"$@\"\n"
                                             "echo \"$KVSIM_VERSION\" >&2\n"
                                             "exit 3\n";
  std::filesystem::permissions(folder.path() / "python", std::filesystem::perms::all);
  const Interpreter ours((folder.path() / "python").string());
  const Ended ended =
      run(folder.path(), {"report", "r.sqlite", "-o", "page", "--budget", "20%", "--layer", "1"});
  CHECK(ended.status == 3);
  CHECK(ended.out == "-m kvsim.report r.sqlite -o page --budget 20% --layer 1\n");
  CHECK(ended.err == version() + "\n");

  std::ofstream(folder.path() / "r.yaml") << "output: page\nsequence: [a, b]\nlayer: 1\n";
  const Ended configured =
      run(folder.path(), {"report", "r.sqlite", "--config", "r.yaml", "--layer", "2"});
  CHECK(configured.out ==
        "-m kvsim.report r.sqlite --layer 2 --output page --sequence a --sequence b\n");
}

TEST_CASE("cli: a report takes a folder named kvsim for no package") {
  const TemporaryFolder folder;
  write_results(folder);
  std::filesystem::create_directories(folder.path() / "kvsim" / "python");
  std::ofstream(folder.path() / "python") << "#!/bin/sh\nexec python3 -S -E \"$@\"\n";
  std::filesystem::permissions(folder.path() / "python", std::filesystem::perms::all);
  const Interpreter without_packages((folder.path() / "python").string());
  const Ended ended = run(folder.path(), {"report", "r.sqlite", "-o", "page"});
  CHECK(ended.status == 1);
  CHECK_THAT(ended.err, Contains("pip install .") && !Contains("No module"));
}

TEST_CASE("cli: a report of no result file is refused before Python is asked") {
  const TemporaryFolder folder;
  const Interpreter fails("false");
  CHECK(run(folder.path(), {"report", "none.sqlite", "-o", "page"}).status == 3);
  CHECK(run(folder.path(), {"report", "none.sqlite"}).status == 2);
}

}  // namespace kvsim::cli_test::report_test
