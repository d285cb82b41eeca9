#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "traces/unit.h"

namespace kvsim {

class GroupReader;

/// Scores of tokens, one per unit and token, that were computed before the replay: float32 at
/// /sequences/<s>/layers/<l>/kv_heads/<h>/scores. Throws DataError for any other file.
class ScoreFile {
 public:
  explicit ScoreFile(const std::filesystem::path& file);
  ~ScoreFile();

  /// The scores of the first `num_tokens` tokens of a unit, for a file that has as many. Throws
  /// DataError if the unit has not, or if one is not finite.
  std::vector<float> read(const UnitName& unit, int num_tokens) const;

 private:
  std::unique_ptr<GroupReader> root_;
};

}  // namespace kvsim
