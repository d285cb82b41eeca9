#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::readme_test {

std::string readme() {
  std::ostringstream text;
  text << std::ifstream(KVSIM_SOURCE_DIR "/README.md").rdbuf();
  return text.str();
}

/// The words of a command line; double quotes join words.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

TEST_CASE("cli: the commands of the README work in the order in which they stand there") {
  const traces_test::TemporaryFolder folder;
  std::filesystem::create_directory_symlink(KVSIM_SOURCE_DIR "/traces", folder.path() / "traces");
  std::istringstream lines(readme());
  int commands = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("kvsim ")) continue;
    ++commands;
    std::vector<std::string> arguments = words_of(line);
    arguments.erase(arguments.begin());
    const Ended ended = run(folder.path(), arguments);
    INFO(line << "\n" << ended.err);
    CHECK(ended.status == 0);
  }
  CHECK(commands >= 5);
}

TEST_CASE("cli: the README's table of policies is what the registry says") {
  const traces_test::TemporaryFolder folder;
  const Ended table = run(folder.path(), {"policies", "--format", "markdown"});
  CHECK(table.status == 0);
  CHECK_THAT(readme(), Catch::Contains(table.out));
}

}  // namespace kvsim::cli_test::readme_test
