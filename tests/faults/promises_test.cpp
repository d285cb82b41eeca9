#include <catch2/catch.hpp>
#include <filesystem>
#include <regex>

#include "tests/support/source_tree.h"

namespace kvsim::faults::promises_test {

TEST_CASE("faults: every promise of the page names a test that exists") {
  const std::string page = house::read("tests/faults/README.md");
  const std::filesystem::path folder = KVSIM_SOURCE_DIR "/tests/faults";
  const std::regex row(R"(\n\| ([A-Z][^|]*) \| ([^|]*) \|)");
  const std::regex link(R"(\]\(([^)]*)\))");
  int promises = 0;
  for (std::sregex_iterator it(page.begin(), page.end(), row), end; it != end; ++it) {
    ++promises;
    const std::string tests = (*it)[2];
    INFO((*it)[1]);
    std::sregex_iterator test(tests.begin(), tests.end(), link);
    CHECK(test != end);
    for (; test != end; ++test) CHECK(std::filesystem::exists(folder / (*test)[1].str()));
  }
  CHECK(promises >= 8);
}

TEST_CASE("faults: every test of the room stands on the page of promises") {
  const std::string page = house::read("tests/faults/README.md");
  for (const std::string& file : house::source_files({".cpp"})) {
    if (!file.starts_with("tests/faults/") || !file.ends_with("_test.cpp")) continue;
    if (file.ends_with("/promises_test.cpp")) continue;
    INFO(file);
    CHECK(page.find("](" + file.substr(std::string("tests/faults/").size()) + ")") !=
          std::string::npos);
  }
}

}  // namespace kvsim::faults::promises_test
