#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "policies/learned/scorer.h"

namespace kvsim {

/// Reads the trained scorers of an .npz file (policies/learned/README.md). Throws DataError, in one
/// line, for a file that cannot be read, is larger than 64 MiB, or holds something else.
std::shared_ptr<const Scorer> read_scorer(const std::filesystem::path& file);

/// What a scorer has to share with the model whose tokens it scores.
struct ScoredLayer {
  int layers = 0;    ///< of the model
  int kv_heads = 0;  ///< the most that one of its layers has
  int head_dim = 0;
  int value_dim = 0;
};

/// Throws DataError if the scorer was trained for another shape; `where` names the model or trace.
void check_scorer(const Scorer& scorer, const ScoredLayer& layer, const std::string& where);

}  // namespace kvsim
