// What README.md and the presets say of the golden sets is what the files in golden/ hold.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <regex>
#include <set>

#include "policies/registry/registry.h"
#include "tests/conformance/golden_sets.h"
#include "tests/support/source_tree.h"

namespace kvsim::conformance::table_test {

std::string percent_of(const GoldenCase& golden) {
  return fmt::format("{:.0f}%", 100 * golden.share);
}

/// owner/name of the address of a repository.
std::string name_of(const GoldenProgram& program) {
  const std::size_t host = program.source.find("github.com/");
  return host == std::string::npos ? program.source : program.source.substr(host + 11);
}

std::string programs_table() {
  std::string table =
      "| program | version or commit | what ran | how |\n| --- | --- | --- | --- |\n";
  for (const auto& file : golden_files()) {
    const GoldenProgram program = read_golden_sets(file);
    const std::string release =
        program.date.empty() ? program.release
                             : fmt::format("{}, {}", program.release.substr(0, 7), program.date);
    table += fmt::format("| [{}]({}), [{}](golden/{}) | {} | {} | {} |\n", name_of(program),
                         program.source, file.stem().string(), file.filename().string(), release,
                         program.original, program.made);
  }
  return table;
}

std::string sets_table() {
  std::string table =
      "| file | case | its settings | stands for it | budget | mode | sets | equal | why not all "
      "|\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const auto& file : golden_files()) {
    for (const GoldenCase& golden : read_golden_sets(file).cases) {
      table += fmt::format("| {} | {} | {} | `{}` | {} | {}, {} | {} | {} | {} |\n",
                           file.stem().string(), golden.name, golden.settings, golden.policy,
                           golden.budget, golden.mode_text,
                           golden.query_heads ? "query heads" : "KV heads", golden.num_sets(),
                           percent_of(golden), golden.cause);
    }
  }
  return table;
}

void check_on_page(const std::string& name, const std::string& table) {
  const std::string marked = fmt::format("<!-- {} -->\n{}<!-- end of {} -->", name, table, name);
  INFO(marked);
  const bool is_there =
      house::read("tests/conformance/README.md").find(marked) != std::string::npos;
  CHECK(is_there);
}

TEST_CASE("the page says which programs ran, from where and how, as the golden files do") {
  check_on_page("programs", programs_table());
}

TEST_CASE("the page says which sets were compared and how many are equal, as the files do") {
  check_on_page("sets", sets_table());
}

TEST_CASE("every golden file names its program, its origin, its version and how it was made") {
  for (const auto& file : golden_files()) {
    const GoldenProgram program = read_golden_sets(file);
    CAPTURE(file.filename().string());
    CHECK_FALSE(program.original.empty());
    CHECK(program.source.starts_with("https://"));
    CHECK_FALSE(program.made.empty());
    const bool is_commit = std::regex_match(program.release, std::regex("[0-9a-f]{40}"));
    const bool is_version = std::regex_match(program.release, std::regex(R"(\d+(\.\d+)+)"));
    CHECK((is_commit || is_version));
    CHECK(is_commit == std::regex_match(program.date, std::regex(R"(\d{4}-\d\d-\d\d)")));
    CHECK_FALSE(program.cases.empty());
  }
}

/// The numbers N of "N% of", ascending, each once: what a text claims of sets that agree.
std::set<std::string> claimed_shares(const std::string& text) {
  static const std::regex kShare(R"((\d+%) of)");
  std::set<std::string> shares;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), kShare);
       it != std::sregex_iterator(); ++it) {
    shares.insert((*it)[1]);
  }
  return shares;
}

TEST_CASE("a preset tells its shares of the original's sets, or that the original was not run") {
  CHECK(claimed_shares("100% of its sets then, 86% of them later; a ratio of 20%") ==
        std::set<std::string>{"100%", "86%"});
  std::set<std::string> named;  // presets that a case names
  const std::vector<GoldenCase> cases = golden_cases();
  for (const PolicyInfo& policy : policies()) {
    for (const Preset& preset : policy.presets) {
      const std::string name = policy.name + ":preset=" + preset.name;
      CAPTURE(name, preset.reproduces);
      std::set<std::string> proven;
      for (const GoldenCase& golden : cases) {
        const bool is_of_preset = golden.policy == name || golden.policy.starts_with(name + ",") ||
                                  golden.policy.starts_with(name + "@") ||
                                  golden.policy.starts_with(name + "+");
        if (is_of_preset) proven.insert(percent_of(golden));
        if (is_of_preset) named.insert(golden.policy);
      }
      if (preset.acausal) continue;  // no spec may name it; an oracle stands for its program
      CHECK(claimed_shares(preset.reproduces) == proven);
      const bool was_run = preset.reproduces.find("not run") == std::string::npos;
      CHECK(was_run == !proven.empty());
    }
  }
  for (const GoldenCase& golden : cases) {
    CAPTURE(golden.policy);
    CHECK((golden.policy.find("preset=") != std::string::npos) == named.contains(golden.policy));
  }
}

}  // namespace kvsim::conformance::table_test
