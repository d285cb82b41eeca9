#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/kernels/aligned_rows.h"
#include "traces/unit.h"

namespace kvsim {

/// Steps per block. The data of one token in a block are one row of this many floats: the steps are
/// the lanes of a vector.
inline constexpr int kBlockSteps = 32;

/// Keys arranged for products with a block of queries: panels of 32 tokens, one row per dimension.
class KeyPanels {
 public:
  /// All keys, [tokens, head_dim]; the key of token j is at place j.
  KeyPanels(const Matrix& key, float scale);

  /// No keys; put() allocates.
  KeyPanels(int head_dim, float scale) : dim_(head_dim), scale_(scale) {}

  /// Stores a key [head_dim] at `place` and replaces any earlier one.
  void put(int place, const float* key);

  /// logit[s, j] = scale * <query[s], key[j]> for places j < width. `query` is [num_steps,
  /// head_dim], `logit` [num_steps, width], both contiguous; num_steps <= kBlockSteps.
  void multiply(const float* query, int num_steps, int width, float* logit) const;

 private:
  int dim_;
  float scale_;
  std::vector<AlignedRows> panels_;  // row k of panel p: dimension k of its keys
};

/// weight[i] = exp(logit[i] - offset), within 3e-7 relative, where `offset` becomes the largest of
/// itself and the logits; minus infinity leaves it to the logits. Equal logits give equal weights
/// at every index. Returns the sum of the weights in fp64.
double exponentials(std::span<const float> logit, float* weight, float& offset);

/// by_token[j, s] = weight[s, j]: transposes [num_steps, width] to [width, kBlockSteps]. Missing
/// steps are 0.
void arrange_by_token(const float* weight, int num_steps, int width, AlignedRows& by_token);

/// Sets bit i of `above` where weight[i] > threshold and clears the others; returns how many are
/// set. `above` has ceil(weight.size() / 64) words.
int mark_above(std::span<const float> weight, float threshold, std::uint64_t* above);

}  // namespace kvsim
