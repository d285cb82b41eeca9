#include <SQLiteCpp/SQLiteCpp.h>
#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "tests/cli/program.h"
#include "tests/support/nightly.h"
#include "tests/support/temporary_folder.h"
#include "traces/synth/synth.h"

namespace kvsim::cli_test::scratch_test {

namespace fs = std::filesystem;
using traces_test::TemporaryFolder;

const std::vector<std::string> kSweep{
    "sweep",     "trace.h5", "--policies", "window;h2o;topk", "--budgets", "5%,20%",
    "--threads", "1",        "-o",         "shared/r.sqlite"};
constexpr int kRowsPerUnit = 3 * 2;

std::vector<std::string> with_scratch(std::vector<std::string> arguments = kSweep) {
  arguments.insert(arguments.end(), {"--scratch", "local"});
  return arguments;
}

/// A trace of 48 units, of 16 where sanitizers watch, and a folder for the result file.
struct Study {
  TemporaryFolder folder;
  fs::path shared = folder / "shared";
  fs::path file = shared / "r.sqlite";

  Study() {
    SynthOptions options;
    options.tokens = 400;
    options.layers = test_support::is_watched() ? 8 : 24;
    options.head_dim = 16;
    options.output = false;
    synthesize(folder / "trace.h5", options);
    fs::create_directory(shared);
  }

  std::string exported() const {
    return run(folder.path(), {"export", "shared/r.sqlite", "--without", "run_id"}).out;
  }

  /// Local copies of the result file.
  std::vector<fs::path> copies() const {
    std::vector<fs::path> found;
    if (!fs::exists(folder / "local")) return found;
    for (const auto& entry : fs::directory_iterator(folder / "local")) {
      found.push_back(entry.path() / "r.sqlite");
    }
    return found;
  }

  static int rows_in(const fs::path& file) {
    try {
      SQLite::Database database(file, SQLite::OPEN_READWRITE);
      return database.execAndGet("SELECT count(*) FROM replay").getInt();
    } catch (const SQLite::Exception&) {
      return 0;  // missing yet, or being written
    }
  }

  /// Starts a sweep with a local copy; it has stored a row there.
  int begun() const {
    const int process = start(folder.path(), with_scratch());
    while (copies().empty() || rows_in(copies()[0]) == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return process;
  }

  Ended ended(int process, int signal) const {
    kill(process, signal);
    return wait(folder.path(), process);
  }
};

TEST_CASE("cli: --scratch gives the same result file, and leaves nothing behind") {
  const Study study;
  const Ended in_place = run(study.folder.path(), kSweep);
  const std::string expected = study.exported();
  fs::remove(study.file);
  const Ended ended = run(study.folder.path(), with_scratch());
  CHECK(ended.status == 0);
  CHECK(ended.out == in_place.out);
  CHECK(study.exported() == expected);
  CHECK(study.copies().empty());
  CHECK(std::distance(fs::directory_iterator(study.shared), fs::directory_iterator()) == 1);
}

TEST_CASE("cli: a sweep that is killed with --scratch goes on where it was") {
  const Study study;
  REQUIRE(run(study.folder.path(), kSweep).status == 0);
  const std::string expected = study.exported();
  fs::remove(study.file);

  CHECK(study.ended(study.begun(), SIGKILL).status == -SIGKILL);
  CHECK_FALSE(fs::exists(study.file));
  REQUIRE(study.copies().size() == 1);
  const int kept = Study::rows_in(study.copies()[0]);
  CHECK(kept > 0);
  const Ended resumed = run(study.folder.path(), with_scratch());
  CHECK(resumed.status == 0);
  CHECK_THAT(resumed.err, Catch::Contains(std::to_string(kept) + " done before"));
  CHECK(study.exported() == expected);
  CHECK(study.copies().empty());
}

TEST_CASE("cli: Ctrl-C and the end of a job's time bring the finished rows to their place") {
  const Study study;
  const Ended ended = study.ended(study.begun(), GENERATE(SIGINT, SIGTERM));
  CHECK(ended.status == 1);
  CHECK_THAT(ended.err, Catch::Contains("interrupted after") &&
                            Catch::Contains("which shared/r.sqlite keeps"));
  CHECK(Study::rows_in(study.file) > 0);
  CHECK(Study::rows_in(study.file) % kRowsPerUnit == 0);
  CHECK(study.copies().empty());
}

TEST_CASE("cli: a result file that another program wrote meanwhile is not overwritten") {
  const Study study;
  const int process = study.begun();
  kill(process, SIGSTOP);  // so that it does not end before the other
  std::vector<std::string> other = kSweep;
  other[3] = "sink";
  other.insert(other.end(), {"--layers", "0"});
  REQUIRE(run(study.folder.path(), other).status == 0);
  const std::string before = study.exported();
  kill(process, SIGINT);
  const Ended ended = study.ended(process, SIGCONT);
  CHECK(ended.status == 1);
  CHECK(study.exported() == before);
  CHECK_THAT(ended.err,
             Catch::Contains("was changed by another program") && Catch::Contains("kvsim merge"));
  std::vector<fs::path> others;
  for (const auto& entry : fs::directory_iterator(study.shared)) {
    if (entry.path() != study.file) others.push_back(entry.path());
  }
  REQUIRE(others.size() == 1);
  CHECK(Study::rows_in(others[0]) > 0);
  CHECK_THAT(ended.err, Catch::Contains("which " + fs::canonical(others[0]).string() + " keeps"));
  CHECK(study.copies().empty());
}

TEST_CASE("cli: rows that cannot come to their place stay on the local disk, which a line names") {
  const Study study;
  const int process = study.begun();
  fs::remove_all(study.shared);
  const Ended ended = study.ended(process, SIGINT);
  CHECK(ended.status == 1);
  REQUIRE(study.copies().size() == 1);
  CHECK(Study::rows_in(study.copies()[0]) > 0);
  CHECK_THAT(ended.err, Catch::Contains("r.sqlite: cannot be written: No such file") &&
                            Catch::Contains("all rows are in ") &&
                            Catch::Contains(fs::canonical(study.copies()[0]).string()));
}

TEST_CASE("cli: curves and analyses are written with --scratch, too") {
  const Study study;
  for (const std::vector<std::string>& verb :
       {std::vector<std::string>{"curve", "trace.h5", "--policies", "window", "--layers", "0"},
        {"analyze", "trace.h5", "--what", "sparsity", "--layers", "0"}}) {
    std::vector<std::string> words = verb;
    words.insert(words.end(), {"-o", "shared/r.sqlite"});
    CHECK(run(study.folder.path(), with_scratch(words)).status == 0);
  }
  CHECK_FALSE(
      run(study.folder.path(), {"export", "shared/r.sqlite", "--table", "curve"}).out.empty());
  CHECK_FALSE(
      run(study.folder.path(), {"export", "shared/r.sqlite", "--table", "sparsity"}).out.empty());
  CHECK(study.copies().empty());
}

}  // namespace kvsim::cli_test::scratch_test
