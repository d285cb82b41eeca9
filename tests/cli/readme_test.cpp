#include <catch2/catch.hpp>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>

#include "tests/cli/program.h"
#include "tests/support/source_tree.h"
#include "tests/support/temporary_folder.h"

namespace kvsim::cli_test::readme_test {

/// The words of a line; double quotes join words.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  bool quoted = false;
  bool in_word = false;
  for (const char c : line) {
    if (c == ' ' && !quoted) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (c == '"') {
      quoted = !quoted;
    } else {
      words.back() += c;
    }
  }
  return words;
}

std::optional<double> number_of(const std::string& word) {
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return number;
}

/// Whether two lines have the same words. Processors round differently, so the last of four digits
/// after the point may differ by one.
bool same_line(const std::string& shown, const std::string& printed) {
  const auto same_word = [](const std::string& a, const std::string& b) {
    const auto x = number_of(a);
    const auto y = number_of(b);
    return a == b || (x && y && a.find('.') != a.npos && std::abs(*x - *y) < 1.5e-4);
  };
  const std::vector<std::string> a = words_of(shown);
  const std::vector<std::string> b = words_of(printed);
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_word);
}

bool has_line(const std::string& text, const std::string& shown) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (same_line(shown, line)) return true;
  }
  return false;
}

/// What a page shows of the program.
struct Shown {
  int commands = 0;
  int lines = 0;  ///< of what they print
};

/// Runs the commands that begin with `prompt` in blocks of `language`, in their order, in one
/// folder. The other lines of these blocks have to be among what the last command has printed.
Shown run_page(const std::string& page, const std::string& language, const std::string& prompt) {
  const traces_test::TemporaryFolder folder;
  std::filesystem::create_directory_symlink(KVSIM_SOURCE_DIR "/traces", folder.path() / "traces");
  Shown shown;
  std::string printed;
  bool in_block = false;
  std::istringstream lines(house::read(page));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      in_block = line == "```" + language;
    } else if (in_block && line.starts_with(prompt + "kvsim ")) {
      ++shown.commands;
      std::vector<std::string> arguments = words_of(line.substr(prompt.size()));
      arguments.erase(arguments.begin());
      const Ended ended = run(folder.path(), arguments);
      INFO(line << "\n" << ended.err);
      CHECK(ended.status == 0);
      printed = ended.out;
    } else if (in_block) {
      ++shown.lines;
      INFO(line << "\nis not in\n" << printed);
      CHECK(has_line(printed, line));
    }
  }
  return shown;
}

TEST_CASE("cli: the commands of the README's finding print what it shows") {
  const Shown shown = run_page("README.md", "console", "$ ");
  CHECK(shown.commands == 2);
  CHECK(shown.lines == 3);
  CHECK(same_line("units  0.0904 B", "units 0.0905  B"));
  CHECK_FALSE(same_line("units 0.0904", "units 0.0944"));
  CHECK_FALSE(same_line("units 8", "units 9"));
  CHECK_FALSE(same_line("A better", "B better"));
}

TEST_CASE("cli: the commands of the program's page work in the order in which they stand there") {
  const Shown shown = run_page("sim/cli/README.md", "sh", "");
  CHECK(shown.commands >= 9);
  CHECK(shown.lines == 0);
}

TEST_CASE("cli: the table of policies/README.md is what the registry says") {
  const traces_test::TemporaryFolder folder;
  const Ended table = run(folder.path(), {"policies", "--format", "markdown"});
  CHECK(table.status == 0);
  CHECK_THAT(house::read("policies/README.md"),
             Catch::Contains("<!-- policies: kvsim policies --format markdown -->\n" + table.out));
}

}  // namespace kvsim::cli_test::readme_test
