#include <catch2/catch.hpp>

#include "tests/house/source_tree.h"

namespace kvsim::house {
namespace {

constexpr auto kReadmeLines = 120;
constexpr auto kSourceLines = 320;

auto line_count(const std::string& file) {
  const std::string text = read(file);
  return std::count(text.begin(), text.end(), '\n');
}

TEST_CASE("house: the README is short") { CHECK(line_count("README.md") <= kReadmeLines); }

TEST_CASE("house: source files are short") {
  std::vector<std::string> too_long;
  for (const std::string& file : source_files({".cpp", ".h", ".cu", ".cuh", ".py"})) {
    const auto lines = line_count(file);
    if (lines > kSourceLines) too_long.push_back(file + ": " + std::to_string(lines) + " lines");
  }
  CHECK(too_long == std::vector<std::string>{});
}

}  // namespace
}  // namespace kvsim::house
