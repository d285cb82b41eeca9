#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>

#include "tests/faults/calls/failing_program.h"
#include "tests/faults/inputs/inputs.h"
#include "tests/faults/inputs/trace_numbers.h"
#include "tests/support/build_tree.h"

namespace kvsim::faults::finds_test {

int check_finds(const std::string& kind, const std::function<void(const std::string&)>& check) {
  int count = 0;
  const std::filesystem::path folder = KVSIM_SOURCE_DIR "/tests/faults/finds/" + kind;
  if (!std::filesystem::exists(folder)) return 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    INFO(entry.path().string());
    std::ifstream in(entry.path(), std::ios::binary);
    CHECK_NOTHROW(check({std::istreambuf_iterator<char>(in), {}}));
    ++count;
  }
  return count;
}

TEST_CASE("faults: text that once confused a parser is understood or refused") {
  CHECK(check_finds("text", [](const std::string& bytes) { check_text(bytes); }) > 0);
}

TEST_CASE("faults: every instruction set gives the same numbers for the inputs that are kept") {
  CHECK(check_finds("kernels", [](const std::string& bytes) {
          check_kernels(bytes, test_support::build_tree() / "tests");
        }) > 0);
}

TEST_CASE("faults: every instruction set gives the same numbers for random sizes and numbers") {
  std::mt19937 random(1);
  for (int i = 0; i < (stride_of(2) == 1 ? 100'000 : 500); ++i) {
    std::string input(8, ' ');
    for (char& c : input) c = static_cast<char>(random());
    INFO(i);
    REQUIRE_NOTHROW(check_kernels(input, test_support::build_tree() / "tests"));
  }
}

TEST_CASE(
    "faults: traces that are cut off, or once broke the reader, are refused or read as written") {
  const std::string seed = seed_trace(false);
  for (std::size_t eighth = 0; eighth <= 8; ++eighth) {
    CHECK_NOTHROW(check_trace(seed.substr(0, seed.size() * eighth / 8)));
  }
  check_finds("trace", [](const std::string& bytes) { check_trace(bytes); });
}

}  // namespace kvsim::faults::finds_test
