#include <catch2/catch.hpp>
#include <filesystem>
#include <regex>
#include <sstream>

#include "tests/house/source_tree.h"

namespace kvsim::house {
namespace {

struct Rule {
  std::string_view folder;
  std::vector<std::string_view> may_include;  // beside itself
  bool anything = false;
};

const std::vector<Rule> kRules = {
    {"traces/", {}},
    {"policies/", {}},
    {"sim/core/", {"traces/", "policies/"}},
    {"oracle/", {"sim/core/", "policies/"}},
    {"analysis/", {"sim/core/", "traces/"}},
    {"gpu/", {"sim/core/"}},
    {"sim/cli/", {}, true},
    {"tests/", {}, true},
};

const std::vector<std::string_view> kExtensions = {".h", ".cpp", ".cu", ".cuh"};

std::vector<std::string> quoted_includes(const std::string& text) {
  static const std::regex kInclude(R"re(^\s*#\s*include\s*"([^"]*)")re");
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (std::smatch match; std::regex_search(line, match, kInclude)) found.push_back(match[1]);
  }
  return found;
}

std::vector<std::string> upward_includes(const std::string& file, const std::string& text) {
  const auto rule = std::find_if(kRules.begin(), kRules.end(),
                                 [&](const Rule& r) { return file.starts_with(r.folder); });
  if (rule == kRules.end()) return {file + ": its folder has no rule in this test"};
  if (rule->anything) return {};
  std::vector<std::string> found;
  for (const std::string& include : quoted_includes(text)) {
    const auto starts = [&](std::string_view folder) { return include.starts_with(folder); };
    if (!starts(rule->folder) &&
        std::none_of(rule->may_include.begin(), rule->may_include.end(), starts)) {
      found.push_back(file + " includes " + include);
    }
  }
  return found;
}

bool names_a_folder(std::string_view include) {
  return include.find("..") == std::string_view::npos &&
         std::any_of(kRules.begin(), kRules.end(),
                     [&](const Rule& r) { return include.starts_with(r.folder); });
}

TEST_CASE("house: includes point down the table of folders") {
  const auto files = source_files(kExtensions);
  REQUIRE(files.size() > 10);
  std::vector<std::string> wrong;
  for (const std::string& file : files) {
    for (const std::string& fault : upward_includes(file, read(file))) wrong.push_back(fault);
  }
  CHECK(wrong == std::vector<std::string>{});
}

TEST_CASE("house: an upward include is caught") {
  const std::string text = "#include <vector>\n  #  include \"sim/core/replay.h\"\n";
  using Faults = std::vector<std::string>;
  CHECK(upward_includes("policies/h2o.cpp", text) ==
        Faults{"policies/h2o.cpp includes sim/core/replay.h"});
  CHECK(upward_includes("gpu/kernel.cu", "#include \"traces/trace.h\"") ==
        Faults{"gpu/kernel.cu includes traces/trace.h"});
  CHECK(upward_includes("oracle/optimal.cpp", text) == Faults{});
  CHECK(upward_includes("sim/core/attention.cpp", text) == Faults{});
  CHECK(upward_includes("elsewhere/a.cpp", text).size() == 1);
}

TEST_CASE("house: quoted includes are paths from the root") {
  CHECK_FALSE(names_a_folder("trace.h"));
  CHECK_FALSE(names_a_folder("traces/../sim/core/replay.h"));
  std::vector<std::string> wrong;
  for (const std::string& file : source_files(kExtensions)) {
    for (const std::string& include : quoted_includes(read(file))) {
      const auto path = std::filesystem::path(KVSIM_SOURCE_DIR) / include;
      if (!names_a_folder(include) || !std::filesystem::exists(path)) {
        wrong.push_back(file + " includes " + include);
      }
    }
  }
  CHECK(wrong == std::vector<std::string>{});
}

}  // namespace
}  // namespace kvsim::house
