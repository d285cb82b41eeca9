#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "sim/protocol/protocol.h"
#include "traces/unit.h"

namespace kvsim::conformance {

using Tokens = std::vector<std::int32_t>;  // ascending text positions

/// What another program kept of one head: the tokens in its cache after each step of the set.
struct GoldenUnit {
  UnitName name;
  std::map<int, Tokens> kept;
};

/// One run of another program, and the policy that should keep the same.
struct GoldenCase {
  std::string name;
  std::string settings;  ///< of the program
  std::string policy;    ///< a spec
  int budget = 1;        ///< the policy's
  Mode mode = Mode::stream;
  std::string mode_text;  ///< as the column `mode` of a row names it
  int eviction_interval = 1;
  bool query_heads = false;  ///< each query head has a cache of its own
  double share = 1;          ///< of all sets, those that the policy keeps exactly
  std::string cause;         ///< why the share is below 1
  std::vector<GoldenUnit> units;

  int num_sets() const;
};

/// A file in golden/: what ran, where it is from, and how it was fed.
struct GoldenProgram {
  std::string original;  ///< the parts of the program that ran
  std::string source;    ///< its address
  std::string release;   ///< the version, or the commit
  std::string date;      ///< of the commit; empty for a version
  std::string made;
  std::vector<GoldenCase> cases;
};

/// Reads a file in golden/. README.md has the format.
GoldenProgram read_golden_sets(const std::filesystem::path& file);

std::vector<std::filesystem::path> golden_files();

/// The cases of all files.
std::vector<GoldenCase> golden_cases();

/// The tokens that are in the cache after `step`, of Trajectory::evicted_after.
Tokens kept_after(const std::vector<std::int32_t>& evicted_after, int step);

}  // namespace kvsim::conformance
