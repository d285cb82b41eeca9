#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <regex>
#include <sstream>

#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::memory_test {

using traces_test::TemporaryFolder;

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

/// What is announced for the program's own code, and less where it is linked from archives, in MiB.
constexpr double kCode = 4;

/// Runs a command and compares the announced memory with the peak: it is at least that, and at most
/// `most` times as much.
void check_announced(const TemporaryFolder& folder, const std::string& command, double most) {
  const Ended ended = run(folder.path(), words(command));
  INFO(command << "\n" << ended.err);
  REQUIRE(ended.status == 0);
  std::smatch match;
  REQUIRE(std::regex_search(ended.err, match, std::regex("about (\\d+) MiB of memory")));
  const double announced = std::stod(match[1]);
  CAPTURE(announced, ended.peak_mib);
  CHECK(announced >= ended.peak_mib - 1);  // it is rounded
  CHECK(announced - kCode <= most * ended.peak_mib);
}

/// Makes a trace with `synth`, and checks the command on it.
void check_on(const std::string& synth, const std::string& command, double most = 1.3) {
  const TemporaryFolder folder;
  // In a process of its own: a child's peak counts from its parent's memory at the start.
  REQUIRE(run(folder.path(), words("synth -o t.h5 --no-output --layers 1 " + synth)).status == 0);
  check_announced(folder, command, most);
}

/// The same of a sweep.
void check_estimate(const std::string& synth, const std::string& sweep) {
  check_on(synth, "sweep t.h5 -o r.sqlite " + sweep);
}

TEST_CASE("cli: a sweep of a short text takes about as much memory as it says") {
  check_estimate("--tokens 300", "--policies window;h2o --budgets 20% --threads 1");
}

TEST_CASE("cli: a sweep without a reference takes about as much memory as it says") {
  check_estimate("--tokens 100000 --query-heads 2 --kv-heads 1",
                 "--policies window;h2o --budgets 64 --reference none --threads 1");
}

TEST_CASE("cli: a sweep without a reference whose keys move takes about as much as it says") {
  check_estimate("--tokens 50000 --query-heads 1 --kv-heads 1 --rope-base 10000",
                 "--policies h2o:preset=streaming;sink:positions=slot --budgets 1024,2048 "
                 "--reference none --threads 1");
}

TEST_CASE("cli: a sweep against a sample of steps takes about as much memory as it says") {
  check_estimate("--tokens 100000 --query-heads 2 --kv-heads 1",
                 "--policies window;h2o --budgets 64 --reference sample:20 --threads 1");
}

TEST_CASE("cli: a sweep against the full attention takes about as much memory as it says") {
  check_estimate("--tokens 6000 --query-heads 4 --kv-heads 1",
                 "--policies window;h2o --budgets 10% --threads 1");
}

TEST_CASE("cli: fetches of whole layers with projections take about as much memory as they say") {
  check_on("--tokens 600 --query-heads 32 --kv-heads 8 --head-dim 128 --hidden 4096",
           "fetch t.h5 -o r.sqlite --select quest:k=64;topk:k=64 --resident 50% --threads 1");
}

TEST_CASE("cli: what policies remember is in the memory that a sweep says it takes") {
  check_estimate("--tokens 8000 --query-heads 1 --kv-heads 1",
                 "--policies scissorhands;snapkv:window=200 --budgets 20%,40% --threads 1");
}

TEST_CASE("cli: a sweep on two threads takes about as much memory as it says") {
  check_estimate("--tokens 5000 --query-heads 4 --kv-heads 2",
                 "--policies tova;lru --budgets 256,10% --threads 2");
}

TEST_CASE("cli: a sweep of many configurations counts the table that it prints") {
  check_on("--tokens 300 --query-heads 16 --kv-heads 8",
           "sweep t.h5 -o r.sqlite --policies window;sink --budgets 5..104:1 --threads 1", 1.5);
}

TEST_CASE("cli: curves take about as much memory as they say") {
  check_on("--tokens 4000 --query-heads 4 --kv-heads 1",
           "curve t.h5 -o r.sqlite --policies window;sink;knorm --threads 1");
}

TEST_CASE("cli: an analysis of many rows counts them") {
  for (const char* what : {"attention-maps", "heavy-hitters", "regression"}) {
    check_on("--tokens 5000 --query-heads 4 --kv-heads 1",
             std::string("analyze t.h5 -o r.sqlite --threads 1 --what ") + what);
  }
}

TEST_CASE("cli: an analysis that lists evictions counts them") {
  check_on("--tokens 1500 --query-heads 4 --kv-heads 1",
           "analyze t.h5 -o r.sqlite --threads 1 --what evictions --policies lru;tova --budgets "
           "10%,20%");
}

TEST_CASE("cli: synth and verify take about as much memory as they say") {
  const TemporaryFolder folder;
  check_announced(folder, "synth -o t.h5 --tokens 2500 --layers 1 --query-heads 8 --kv-heads 2",
                  1.3);
  check_announced(folder, "verify t.h5 --threads 1", 1.3);
  CHECK(run(folder.path(), words("verify t.h5 --quiet")).err.empty());
}

TEST_CASE("cli: a command that computes nothing takes little memory") {
  const TemporaryFolder folder;
  CHECK(run(folder.path(), {"--version"}).peak_mib < 60);
}

}  // namespace kvsim::cli_test::memory_test
