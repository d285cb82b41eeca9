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

/// The tokens of one sum, and the factor of each at a step.
struct SummedTokens {
  const std::int32_t* list = nullptr;           // null: all
  const std::int32_t* evicted_after = nullptr;  // for tokens evicted in the block, else null
  int count = 0;
  int unit = 0;
  double* sum = nullptr;  // [S, H, value_dim]

  KVSIM_DEVICE int token(int i) const {
    const int entry = list == nullptr ? i : list[i];
    return entry < 0 ? ~entry : entry;
  }
  KVSIM_DEVICE double sign(int i, int step) const {
    if (list == nullptr) return 1;
    if (evicted_after != nullptr) return evicted_after[list[i]] < step ? 1 : 0;
    return list[i] < 0 ? -1 : 1;
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

/// Sums weight times value over the tokens of one sum, for a tile of rows and dimensions, in fp64
/// on the matrix units. Weights and values are fp32, so their products are exact.
/// CPU counterpart: add_products() in sim/kernels/value_kernels.h.
template <class Block>
KVSIM_DEVICE void sum_values(Block& block, const Batch& batch, int index) {
  const SumTile tile = sum_tile(batch, index);
  const SummedTokens tokens = summed_tokens(batch, tile.source);
  const int num_tokens = batch.shape.num_tokens;
  const int num_dims = batch.shape.value_dim;
  const float* weight = batch.weight + batch.block_row(tokens.unit, 0) * num_tokens;
  const float* value = batch.value + batch.tokens_of(tokens.unit) * num_dims;
  typename Block::Tile product(block);
  for (int first = 0; first < tokens.count; first += kTileTerms) {
    block.each(kTileRows * kTileTerms, [&](int i) {
      const int row = tile.first_row + i / kTileTerms;
      const int term = first + i % kTileTerms;
      double factor = 0;
      if (row < batch.rows() && term < tokens.count) {
        const int step = batch.first_step + row / batch.shape.group_size;
        factor = tokens.sign(term, step) *
                 weight[static_cast<std::size_t>(row) * num_tokens + tokens.token(term)];
      }
      product.left(i / kTileTerms, i % kTileTerms) = factor;
    });
    block.each(kTileTerms * kTileDims, [&](int i) {
      const int term = first + i / kTileDims;
      const int dim = tile.first_dim + i % kTileDims;
      const bool is_there = term < tokens.count && dim < num_dims;
      product.right(i / kTileDims, i % kTileDims) =
          is_there ? value[static_cast<std::size_t>(tokens.token(term)) * num_dims + dim] : 0;
    });
    product.multiply_add();
  }
  product.for_each([&](int row, int dim, double sum) {
    row += tile.first_row;
    dim += tile.first_dim;
    if (row >= batch.rows() || dim >= num_dims) return;
    tokens.sum[static_cast<std::size_t>(row) * num_dims + dim] = sum;
  });
}

}  // namespace kvsim::gpu
