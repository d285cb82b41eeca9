#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
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

  /// The scores of a unit, for its first `num_tokens` tokens. `token_ids` are those of its whole
  /// text, or empty if they are not known. Throws DataError if the unit has none or another number
  /// of them, if one is not finite, and if the attribute `text_id` of the sequence is there and not
  /// the SHA-256 of these ids.
  std::vector<float> read(const UnitName& unit, int num_tokens,
                          std::span<const std::int32_t> token_ids) const;

 private:
  std::unique_ptr<GroupReader> root_;
};

}  // namespace kvsim
