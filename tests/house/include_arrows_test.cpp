#include <catch2/catch.hpp>
#include <filesystem>
#include <regex>
#include <sstream>

#include "tests/support/source_tree.h"

namespace kvsim::house::include_arrows_test {

using Folders = std::vector<std::string_view>;

struct Room {
  std::string_view folder;
  Folders may_include;  // folders or single headers, in addition to the room
  bool anything = false;
};

Folders operator+(Folders folders, const Folders& more) {
  folders.insert(folders.end(), more.begin(), more.end());
  return folders;
}

const Folders kPolicies = {"policies/interface/", "policies/learned/", "policies/parameters/",
                           "policies/parts/", "policies/registry/"};
const Folders kTraces = {"traces/", "traces/hdf5/", "traces/guard/", "traces/output/"};
const Folders kBelowReplay =
    kPolicies + kTraces + Folders{"sim/outputs/",       "sim/results/",   "sim/results/numpy/",
                                  "sim/results/sinks/", "sim/attention/", "sim/cache/",
                                  "sim/kernels/",       "sim/protocol/"};
const Folders kEngine =
    kBelowReplay + Folders{"sim/replay/", "sim/curve/", "sim/tiers/", "sim/sweep/"};

constexpr std::string_view kBase = "sim/base/";  // which every room may include

// From the bottom up. A folder stands for its own files, not for those of the folders in it.
const std::vector<Room> kRooms = {
    {kBase, {}},
    {"sim/protocol/", {}},
    {"traces/output/", {}},
    {"traces/hdf5/", {"traces/output/"}},
    {"traces/guard/", {"traces/hdf5/"}},
    {"traces/", {"traces/hdf5/", "traces/guard/", "traces/output/"}},
    {"traces/synth/", kTraces},
    {"policies/parameters/", {}},
    {"policies/parts/", {}},
    {"policies/interface/", {"policies/parameters/", "policies/parts/"}},
    {"policies/registry/", {"policies/interface/", "policies/parameters/"}},
    {"policies/merging/", {"policies/interface/", "policies/parts/"}},
    {"policies/learned/", {"policies/interface/", "policies/parts/"}},
    {"policies/",
     {"policies/interface/", "policies/learned/", "policies/merging/", "policies/parameters/",
      "policies/parts/"}},
    {"sim/kernels/", {"policies/interface/score_rule.h", "traces/unit.h"}},
    {"sim/attention/", Folders{"sim/kernels/", "sim/protocol/", "policies/interface/"} + kTraces},
    {"sim/cache/", {"sim/kernels/", "sim/protocol/", "policies/interface/"}},
    {"sim/results/local_disk/", kTraces},
    {"sim/results/numpy/", {}},
    {"sim/results/",
     Folders{"policies/learned/", "policies/registry/", "sim/protocol/", "sim/kernels/percentile.h",
             "sim/results/local_disk/", "sim/results/numpy/"} +
         kTraces},
    {"sim/results/sinks/", {"sim/results/", "sim/results/local_disk/"}},
    {"sim/results/merge/", Folders{"sim/results/", "sim/results/local_disk/"} + kTraces},
    {"sim/outputs/", Folders{"sim/attention/", "sim/cache/", "sim/kernels/", "sim/protocol/",
                             "policies/interface/", "policies/parts/"} +
                         kTraces},
    {"sim/replay/", kBelowReplay},
    {"sim/curve/", kBelowReplay + Folders{"sim/replay/"}},
    {"sim/tiers/",
     {"policies/interface/", "policies/parameters/", "sim/attention/", "sim/kernels/",
      "sim/outputs/", "sim/protocol/", "traces/unit.h", "traces/unit_seed.h"}},
    {"sim/sweep/", kBelowReplay + Folders{"sim/replay/", "sim/curve/", "sim/tiers/"}},
    {"sim/sweep/request/", kEngine},
    {"sim/running/", kEngine},
    {"oracle/lookahead/", kBelowReplay + Folders{"sim/replay/"}},
    {"oracle/assignment/", kBelowReplay + Folders{"sim/replay/"}},
    {"oracle/auction/", kBelowReplay + Folders{"oracle/assignment/"}},
    {"oracle/", kBelowReplay + Folders{"sim/replay/", "oracle/assignment/", "oracle/auction/",
                                       "oracle/lookahead/"}},
    {"oracle/labels/", kBelowReplay + Folders{"sim/replay/"}},
    {"analysis/fits/", {"traces/unit.h", "traces/synth/random_stream.h"}},
    {"analysis/cost/", {}},
    {"analysis/", kEngine},
    {"analysis/measurements/", kEngine + Folders{"analysis/", "analysis/fits/"}},
    {"analysis/bounds/", kEngine + Folders{"analysis/", "analysis/fits/"}},
    {"gpu/kernels/", {"sim/kernels/", "sim/attention/", "sim/outputs/measurement.h"}},
    {"gpu/", kEngine + Folders{"gpu/kernels/"}},
    {"gpu/cuda/", {"gpu/", "gpu/kernels/", "sim/attention/"}},
    {"sim/summary/", kEngine + Folders{"oracle/", "analysis/"}},
    {"sim/plugin/", kEngine + Folders{"oracle/", "analysis/"}},
    {"sim/cli/", {}, true},
    {"python/", {}, true},
    {"tests/", {}, true},
};

// The most specific room that holds the file; null if none does.
const Room* room_of(std::string_view file) {
  const Room* found = nullptr;
  for (const Room& room : kRooms) {
    if (!file.starts_with(room.folder)) continue;
    if (found == nullptr || room.folder.size() > found->folder.size()) found = &room;
  }
  return found;
}

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

bool may_include(const Room& room, const std::string& include) {
  const Room* other = room_of(include);
  const auto allows = [&](std::string_view allowed) {
    return include == allowed || (other != nullptr && other->folder == allowed);
  };
  return room.anything || other == &room || allows(kBase) ||
         std::any_of(room.may_include.begin(), room.may_include.end(), allows);
}

std::vector<std::string> upward_includes(const std::string& file, const std::string& text) {
  const Room* room = room_of(file);
  if (room == nullptr) return {file + ": its folder has no rule in this test"};
  std::vector<std::string> found;
  for (const std::string& include : quoted_includes(text)) {
    if (!may_include(*room, include)) found.push_back(file + " includes " + include);
  }
  return found;
}

bool names_a_folder(std::string_view include) {
  return include.find("..") == std::string_view::npos && room_of(include) != nullptr;
}

TEST_CASE("house: includes point down the table of rooms") {
  const auto files = source_files(kExtensions);
  REQUIRE(files.size() > 10);
  std::vector<std::string> wrong;
  for (const std::string& file : files) {
    for (const std::string& fault : upward_includes(file, read(file))) wrong.push_back(fault);
  }
  CHECK(wrong == std::vector<std::string>{});
}

TEST_CASE("house: an upward include is caught") {
  const std::string text = "#include <vector>\n  #  include \"sim/replay/replay.h\"\n";
  using Faults = std::vector<std::string>;
  CHECK(upward_includes("policies/h2o.cpp", text) ==
        Faults{"policies/h2o.cpp includes sim/replay/replay.h"});
  CHECK(upward_includes("sim/attention/attention.cpp", text) ==
        Faults{"sim/attention/attention.cpp includes sim/replay/replay.h"});
  CHECK(upward_includes("gpu/kernels/kernel.cu", "#include \"traces/trace.h\"") ==
        Faults{"gpu/kernels/kernel.cu includes traces/trace.h"});
  CHECK(upward_includes("sim/kernels/value_kernels.cpp", "#include \"traces/trace.h\"").size() ==
        1);
  CHECK(upward_includes("policies/h2o.cpp", "#include \"policies/registry/registry.h\"").size() ==
        1);
  CHECK(upward_includes("analysis/registry.cpp", "#include \"sim/cli/verb.h\"").size() == 1);
  CHECK(
      upward_includes("sim/base/amount.cpp", "#include \"policies/parameters/params.h\"").size() ==
      1);
  CHECK(upward_includes("traces/output/unnamed_file.cpp", "#include \"sim/base/errors.h\"") ==
        Faults{});
  CHECK(upward_includes("oracle/optimal.cpp", text) == Faults{});
  CHECK(upward_includes("sim/replay/oracle_plans.cpp", text) == Faults{});
  CHECK(upward_includes("elsewhere/a.cpp", text).size() == 1);
}

TEST_CASE("house: quoted includes are paths from the root") {
  CHECK_FALSE(names_a_folder("trace.h"));
  CHECK_FALSE(names_a_folder("traces/../sim/replay/replay.h"));
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

}  // namespace kvsim::house::include_arrows_test
