#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "sim/attention/mode.h"
#include "traces/unit.h"

namespace kvsim::conformance {

using Tokens = std::vector<std::int32_t>;  // ascending text positions

/// What another program kept of one head: the tokens in its cache after each step that is told.
struct GoldenUnit {
  UnitName name;
  std::map<int, Tokens> kept;
};

/// One run of another program, and the policy that should keep the same.
struct GoldenCase {
  std::string name;
  std::string policy;  ///< a spec
  int budget = 1;      ///< the policy's
  Mode mode = Mode::stream;
  int eviction_interval = 1;
  bool query_heads = false;  ///< each query head has a cache of its own
  double share = 1;          ///< of the sets told: those that the policy keeps exactly
  std::string cause;         ///< why the share is below 1
  std::vector<GoldenUnit> units;
};

/// The cases of one file in golden/. README.md has the format.
std::vector<GoldenCase> read_golden_sets(const std::filesystem::path& file);

std::vector<std::filesystem::path> golden_files();

/// The tokens that are in the cache after `step`, of Trajectory::evicted_after.
Tokens kept_after(const std::vector<std::int32_t>& evicted_after, int step);

}  // namespace kvsim::conformance
