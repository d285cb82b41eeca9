#pragma once

#include "gpu/kernels/batch.h"

namespace kvsim::gpu {

/// Rows, dimensions and terms of the matrix product that a thread block computes at a time.
inline constexpr int kTileRows = 64;
inline constexpr int kTileDims = 64;
inline constexpr int kTileTerms = 16;

constexpr int num_sums(const Batch& batch) { return 2 * batch.num_replays + batch.num_units; }

/// The part of a batch's sums that one thread block computes: a tile of one sum.
struct SumTile {
  int source;  ///< 0 .. R-1: terms of a replay; R .. 2R-1: evicted tokens; then U: all tokens
  int first_row;
  int first_dim;
};

constexpr int row_tiles(const Batch& batch) { return (batch.rows() + kTileRows - 1) / kTileRows; }
constexpr int dim_tiles(const Batch& batch) {
  return (batch.shape.value_dim + kTileDims - 1) / kTileDims;
}

constexpr SumTile sum_tile(const Batch& batch, int index) {
  const int dims = dim_tiles(batch);
  const int rows = row_tiles(batch);
  return {index / (dims * rows), index / dims % rows * kTileRows, index % dims * kTileDims};
}

/// The tokens of one sum, its terms, with their weights and values. What is loaded is apart from
/// what is computed of it, so that a thread can load ahead: first the entry of a term, then what is
/// found by the entry, and last the factor.
struct SummedTokens {
  const std::int32_t* list = nullptr;           // null: all
  const std::int32_t* evicted_after = nullptr;  // for tokens evicted in the block, else null
  int count = 0;
  int unit = 0;
  double* sum = nullptr;  // [S, H, value_dim]

  KVSIM_DEVICE std::int32_t entry(int term) const { return list == nullptr ? term : list[term]; }
  KVSIM_DEVICE static std::int32_t token(std::int32_t entry) { return entry < 0 ? ~entry : entry; }

  /// The last step in whose sum the token is not.
  KVSIM_DEVICE std::int32_t last_without(std::int32_t entry) const {
    return evicted_after == nullptr ? -1 : evicted_after[entry];
  }

  /// The factor of a weight in row `row` of the block.
  KVSIM_DEVICE static float factor(const Batch& batch, int row, std::int32_t entry,
                                   std::int32_t last_without) {
    const bool counts = row >= (last_without + 1 - batch.first_step) * batch.shape.group_size;
    return !counts ? 0 : entry < 0 ? -1 : 1;
  }
};

KVSIM_DEVICE inline SummedTokens summed_tokens(const Batch& batch, int source) {
  const std::size_t size = batch.block_row(1, 0) * batch.shape.value_dim;
  if (source >= 2 * batch.num_replays) {
    const int unit = source - 2 * batch.num_replays;
    return {nullptr, nullptr, batch.width(), unit, batch.full_sum + unit * size};
  }
  const bool is_evicted = source >= batch.num_replays;
  const int replay = is_evicted ? source - batch.num_replays : source;
  const std::size_t tokens = batch.tokens_of(replay);
  const int unit = batch.replays[replay].unit;
  if (!is_evicted) {
    return {batch.term + tokens, nullptr, batch.num_terms[replay], unit,
            batch.term_sum + replay * size};
  }
  return {batch.evicted + tokens, batch.evicted_after + tokens, batch.num_evicted[replay], unit,
          batch.evicted_sum + replay * size};
}

/// The operands of a tile of one sum: weights [rows, terms], with their factors, and values
/// [terms, dims]. Beyond the last row or dimension they repeat it.
class SumOperands {
 public:
  KVSIM_DEVICE SumOperands(const Batch& batch, const SummedTokens& tokens, const SumTile& tile)
      : batch_(batch),
        tokens_(tokens),
        tile_(tile),
        weight_(batch.weight + batch.block_row(tokens.unit, 0) * batch.shape.num_tokens),
        value_(batch.value + batch.tokens_of(tokens.unit) * batch.shape.value_dim) {}

  KVSIM_DEVICE int num_terms() const { return tokens_.count; }
  KVSIM_DEVICE std::int32_t entry(int term) const { return tokens_.entry(term); }
  KVSIM_DEVICE std::int32_t last_without(std::int32_t entry) const {
    return tokens_.last_without(entry);
  }

  KVSIM_DEVICE float weight(int row, std::int32_t entry) const {
    const std::size_t of_row = last_of(row + tile_.first_row, batch_.rows());
    return weight_[of_row * batch_.shape.num_tokens + SummedTokens::token(entry)];
  }

  KVSIM_DEVICE float factor(int row, std::int32_t entry, std::int32_t last_without) const {
    return SummedTokens::factor(batch_, row + tile_.first_row, entry, last_without);
  }

  KVSIM_DEVICE float value(std::int32_t entry, int dim) const {
    const std::size_t of_token = SummedTokens::token(entry);
    const int num_dims = batch_.shape.value_dim;
    return value_[of_token * num_dims + last_of(dim + tile_.first_dim, num_dims)];
  }

 private:
  KVSIM_DEVICE static int last_of(int i, int count) { return i < count ? i : count - 1; }

  const Batch& batch_;
  SummedTokens tokens_;
  SumTile tile_;
  const float* weight_;
  const float* value_;
};

/// Sums weight times value over the tokens of one sum, for a tile of rows and dimensions, in fp64
/// on the matrix units. Weights and values are fp32, so their products are exact; the order of a
/// sum depends on its tokens alone.
/// CPU counterpart: add_products() in sim/kernels/value_kernels.h.
template <class Block>
KVSIM_DEVICE void sum_values(Block& block, const Batch& batch, int index) {
  const SumTile tile = sum_tile(batch, index);
  const SummedTokens tokens = summed_tokens(batch, tile.source);
  const int num_dims = batch.shape.value_dim;
  typename Block::Tile product(block);
  product.add_products(SumOperands(batch, tokens, tile));
  product.for_each([&](int row, int dim, double sum) {
    row += tile.first_row;
    dim += tile.first_dim;
    if (row >= batch.rows() || dim >= num_dims) return;
    tokens.sum[static_cast<std::size_t>(row) * num_dims + dim] = sum;
  });
}

}  // namespace kvsim::gpu
