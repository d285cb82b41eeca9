#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvsim {

// The loops over the slots of a cache that take the time of a scorer. Each gives the same bits with
// every instruction set: no products are fused with sums.

/// x^(1/8) of each number, in place of a logarithm: finite at 0, and exact in IEEE arithmetic.
void take_eighth_roots(std::span<float> numbers);

/// Adds weights[k] * columns[k][i] to each sum i, k ascending.
void add_weighted(std::span<const float* const> columns, const float* weights,
                  std::span<float> sums);

/// The same sums as those of a hidden unit, which begin at `fixed`: adds weight * max(0, sum) to
/// each output.
void add_unit(std::span<const float* const> columns, const float* weights, const float* fixed,
              float weight, std::span<float> outputs);

/// A complete tree: the nodes after node i are 2i + 1 and 2i + 2.
struct Tree {
  const std::int32_t* row;  ///< per split: of the tile, what it compares
  const float* threshold;   ///< per split
  const float* leaf;
};

inline constexpr std::size_t kTileTokens = 64;
inline constexpr int kDeepestInVectors = 5;

/// Adds the tree's leaf of each token to its sum. `tile` is [rows, kTileTokens], `sums`
/// [kTileTokens]; depth is at least 1 and at most kDeepestInVectors.
void add_leaves(const Tree& tree, int depth, const float* tile, float* sums);

}  // namespace kvsim
