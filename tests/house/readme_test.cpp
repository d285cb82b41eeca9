#include <catch2/catch.hpp>
#include <filesystem>
#include <regex>

#include "tests/support/source_tree.h"

namespace kvsim::house::readme_test {

namespace fs = std::filesystem;

constexpr auto kReadmeLines = 100;
constexpr auto kContributingLines = 80;
constexpr auto kSourceLines = 320;

auto line_count(const std::string& file) {
  const std::string text = read(file);
  return std::count(text.begin(), text.end(), '\n');
}

// The paths that a page links to, seen from the page; neither addresses nor places on the page.
std::vector<std::string> linked_paths(const std::string& text) {
  static const std::regex kLink(R"re(\]\(([^)#\s]+)[^)]*\))re");
  std::vector<std::string> found;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), kLink);
       it != std::sregex_iterator(); ++it) {
    if ((*it)[1].str().find("://") == std::string::npos) found.push_back((*it)[1]);
  }
  return found;
}

TEST_CASE("house: the README and CONTRIBUTING are short") {
  CHECK(line_count("README.md") <= kReadmeLines);
  CHECK(line_count("CONTRIBUTING.md") <= kContributingLines);
}

TEST_CASE("house: source files are short") {
  std::vector<std::string> too_long;
  for (const std::string& file : source_files({".cpp", ".h", ".cu", ".cuh", ".py"})) {
    const auto lines = line_count(file);
    if (lines > kSourceLines) too_long.push_back(file + ": " + std::to_string(lines) + " lines");
  }
  CHECK(too_long == std::vector<std::string>{});
}

TEST_CASE("house: every room says what flows in and out and which file to read first") {
  std::vector<std::string> silent;
  for (const std::string& file : source_files({".h", ".cpp"})) {
    const fs::path room = fs::path(file).parent_path();
    if (file.starts_with("tests/")) continue;
    const fs::path page = room / "README.md";
    const bool exists = fs::exists(fs::path(KVSIM_SOURCE_DIR) / page);
    const std::string text = exists ? read(page.string()) : "";
    for (const char* part : {"**In:** ", "**Out:** ", "**Read first:** "}) {
      if (text.find(part) == std::string::npos) silent.push_back(page.string() + " " + part);
    }
  }
  silent.erase(std::unique(silent.begin(), silent.end()), silent.end());
  CHECK(silent == std::vector<std::string>{});
}

TEST_CASE("house: links of pages lead to files") {
  CHECK(linked_paths("[a](b.h#c), [d](https://e), [f](#g), ![h](i.png)") ==
        std::vector<std::string>{"b.h", "i.png"});
  std::vector<std::string> dead;
  for (const std::string& page : source_files({".md"})) {
    const fs::path folder = fs::path(KVSIM_SOURCE_DIR) / fs::path(page).parent_path();
    for (const std::string& path : linked_paths(read(page))) {
      if (!fs::exists(folder / path)) dead.push_back(page + " links to " + path);
    }
  }
  CHECK(dead == std::vector<std::string>{});
}

}  // namespace kvsim::house::readme_test
