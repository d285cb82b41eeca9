#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <regex>
#include <sstream>

#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test {
namespace {

using traces_test::TemporaryFolder;

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

/// Sweeps a trace from `synth` and compares the announced memory with the peak.
void check_estimate(const std::string& synth, const std::string& sweep) {
  const TemporaryFolder folder;
  // In a process of its own: a child's peak counts from its parent's memory at the start.
  REQUIRE(run(folder.path(), words("synth -o t.h5 --no-output --layers 1 " + synth)).status == 0);
  const Ended swept = run(folder.path(), words("sweep t.h5 -o r.sqlite " + sweep));
  INFO("synth " << synth << "; sweep " << sweep << "\n" << swept.err);
  REQUIRE(swept.status == 0);
  std::smatch match;
  REQUIRE(std::regex_search(swept.err, match, std::regex("about (\\d+) MiB of memory")));
  // The memory of an empty run may come on top or not: device libraries are large and are read when
  // the program ends, before or after it frees its own memory.
  const double least = run(folder.path(), {"--version"}).peak_mib;
  const double announced = std::stod(match[1]);
  CAPTURE(announced, least, swept.peak_mib);
  CHECK(announced + least >= 0.8 * swept.peak_mib);
  CHECK(std::max(announced, least) <= 1.2 * swept.peak_mib);
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
  check_estimate("--tokens 12000 --query-heads 4 --kv-heads 1",
                 "--policies window;h2o --budgets 10% --threads 1");
}

TEST_CASE("cli: what policies remember is in the memory that a sweep says it takes") {
  check_estimate("--tokens 8000 --query-heads 1 --kv-heads 1",
                 "--policies scissorhands;snapkv:window=200 --budgets 20%,40% --threads 1");
}

TEST_CASE("cli: a sweep on two threads takes about as much memory as it says") {
  check_estimate("--tokens 8000 --query-heads 4 --kv-heads 2",
                 "--policies tova;lru --budgets 256,10% --threads 2");
}

}  // namespace
}  // namespace kvsim::cli_test
