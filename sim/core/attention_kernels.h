#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/core/aligned_rows.h"
#include "traces/unit.h"

namespace kvsim {

/// Steps that are computed together. What belongs to one token in a block is one row of this many
/// floats, so that the steps are the lanes of a vector.
inline constexpr int kBlockSteps = 32;

/// Keys arranged for products with a block of queries: panels of 32 tokens, one row per dimension.
class KeyPanels {
 public:
  /// All keys, each at the place of its token.
  KeyPanels(const Matrix& key, float scale);

  /// No keys; put() makes room for them.
  KeyPanels(int head_dim, float scale) : dim_(head_dim), scale_(scale) {}

  /// Puts a key at `place`, instead of what was there.
  void put(int place, const float* key);

  /// logit[s, j] = scale * <query[s], key[j]> for the places j < width. `query` and `logit` are
  /// contiguous rows of head_dim and `width` floats, one per step; at most kBlockSteps.
  void multiply(const float* query, int num_steps, int width, float* logit) const;

 private:
  int dim_;
  float scale_;
  std::vector<AlignedRows> panels_;  // row k of panel p: dimension k of its keys
};

/// weight[i] = exp(logit[i] - max), max being the largest logit. Equal
/// logits have equal weights wherever they stand. Returns the sum of the weights.
double exponentials(std::span<const float> logit, float* weight);

/// by_token[j, s] = weight[s, j]: num_steps rows of `width` floats become `width` rows of
/// kBlockSteps, those of steps that are not there being 0.
void arrange_by_token(const float* weight, int num_steps, int width, AlignedRows& by_token);

/// How many of the weights are above the threshold; their bits are set in `above`, which has room
/// for all of them.
int mark_above(std::span<const float> weight, float threshold, std::uint64_t* above);

}  // namespace kvsim
