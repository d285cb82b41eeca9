// Compiled without errno and traps of floating point, so that a square root becomes a vector
// instruction.

#include "policies/learned/scoring_kernels.h"

#include <cmath>

#include "sim/base/float_lanes.h"
#include "sim/base/vector_targets.h"

namespace kvsim {
namespace {

template <class Target>
using Floats = typename Vectors<Target>::Floats;

template <class Target>
KVSIM_INLINE void eighth_roots(float* numbers, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    numbers[i] = std::sqrt(std::sqrt(std::sqrt(numbers[i])));
  }
}
KVSIM_KERNEL(void, eighth_roots, (float* numbers, std::size_t count), (numbers, count))

template <class Target>
KVSIM_INLINE void weighted(const float* const* columns, std::size_t num_columns,
                           const float* weights, float* sums, std::size_t count) {
  std::size_t i = 0;
  for (; i + kFloats<Target> <= count; i += kFloats<Target>) {
    Floats<Target> sum;
    load(sum, sums + i);
    for (std::size_t k = 0; k < num_columns; ++k) {
      Floats<Target> x;
      load(x, columns[k] + i);
      sum += weights[k] * x;
    }
    store(sum, sums + i);
  }
  for (; i < count; ++i) {
    for (std::size_t k = 0; k < num_columns; ++k) sums[i] += weights[k] * columns[k][i];
  }
}
KVSIM_KERNEL(void, weighted,
             (const float* const* columns, std::size_t num_columns, const float* weights,
              float* sums, std::size_t count),
             (columns, num_columns, weights, sums, count))

template <class Target>
KVSIM_INLINE void unit(const float* const* columns, std::size_t num_columns, const float* weights,
                       const float* fixed, float weight, float* outputs, std::size_t count) {
  std::size_t i = 0;
  for (; i + kFloats<Target> <= count; i += kFloats<Target>) {
    Floats<Target> sum;
    Floats<Target> output;
    load(sum, fixed + i);
    load(output, outputs + i);
    for (std::size_t k = 0; k < num_columns; ++k) {
      Floats<Target> x;
      load(x, columns[k] + i);
      sum += weights[k] * x;
    }
    const Floats<Target> zero = {};
    sum = sum > zero ? sum : zero;
    output += weight * sum;
    store(output, outputs + i);
  }
  for (; i < count; ++i) {
    float sum = fixed[i];
    for (std::size_t k = 0; k < num_columns; ++k) sum += weights[k] * columns[k][i];
    outputs[i] += weight * (sum > 0 ? sum : 0);
  }
}
KVSIM_KERNEL(void, unit,
             (const float* const* columns, std::size_t num_columns, const float* weights,
              const float* fixed, float weight, float* outputs, std::size_t count),
             (columns, num_columns, weights, fixed, weight, outputs, count))

/// So many registers of tokens share what is read of a node.
template <class Target>
inline constexpr int kWide = Target::kRegisters / 8;

/// `number` in all lanes. gcc 12 makes one broadcast of the sum, but sixteen of a plain copy.
template <class Vector>
KVSIM_INLINE void fill(Vector& lanes, float number) {
  lanes = Vector{} + number;
}

/// The leaves below a node. Both sides are computed, and one is chosen per token: without jumps
/// that nobody can predict.
template <class Target, int depth>
KVSIM_INLINE void descend(const Tree& tree, std::size_t node, std::size_t num_splits,
                          const float* tile, Floats<Target> (&found)[kWide<Target>]) {
  const float* const row = tile + static_cast<std::size_t>(tree.row[node]) * kTileTokens;
  Floats<Target> threshold;
  fill(threshold, tree.threshold[node]);
  if constexpr (depth == 1) {
    const float* const leaf = tree.leaf + 2 * node + 1 - num_splits;
    Floats<Target> left;
    Floats<Target> right;
    fill(left, leaf[0]);
    fill(right, leaf[1]);
    for (int i = 0; i < kWide<Target>; ++i) {
      Floats<Target> x;
      load(x, row + i * kFloats<Target>);
      found[i] = x <= threshold ? left : right;
    }
  } else {
    Floats<Target> right[kWide<Target>];
    descend<Target, depth - 1>(tree, 2 * node + 1, num_splits, tile, found);
    descend<Target, depth - 1>(tree, 2 * node + 2, num_splits, tile, right);
    for (int i = 0; i < kWide<Target>; ++i) {
      Floats<Target> x;
      load(x, row + i * kFloats<Target>);
      found[i] = x <= threshold ? found[i] : right[i];
    }
  }
}

template <class Target, int depth>
KVSIM_INLINE void leaves_at(const Tree& tree, const float* tile, float* sums) {
  constexpr std::size_t kSplits = (std::size_t{1} << static_cast<unsigned>(depth)) - 1;
  for (std::size_t i = 0; i < kTileTokens; i += kWide<Target> * kFloats<Target>) {
    Floats<Target> found[kWide<Target>];
    descend<Target, depth>(tree, 0, kSplits, tile + i, found);
    for (int wide = 0; wide < kWide<Target>; ++wide) {
      float* const to = sums + i + wide * kFloats<Target>;
      Floats<Target> sum;
      load(sum, to);
      store(sum + found[wide], to);
    }
  }
}

template <class Target>
KVSIM_INLINE void leaves(const Tree& tree, int depth, const float* tile, float* sums) {
  static_assert(kDeepestInVectors == 5);
  if (depth == 1) leaves_at<Target, 1>(tree, tile, sums);
  if (depth == 2) leaves_at<Target, 2>(tree, tile, sums);
  if (depth == 3) leaves_at<Target, 3>(tree, tile, sums);
  if (depth == 4) leaves_at<Target, 4>(tree, tile, sums);
  if (depth == 5) leaves_at<Target, 5>(tree, tile, sums);
}
KVSIM_KERNEL(void, leaves, (const Tree& tree, int depth, const float* tile, float* sums),
             (tree, depth, tile, sums))

}  // namespace

void take_eighth_roots(std::span<float> numbers) {
  best_eighth_roots(numbers.data(), numbers.size());
}

void add_weighted(std::span<const float* const> columns, const float* weights,
                  std::span<float> sums) {
  best_weighted(columns.data(), columns.size(), weights, sums.data(), sums.size());
}

void add_unit(std::span<const float* const> columns, const float* weights, const float* fixed,
              float weight, std::span<float> outputs) {
  best_unit(columns.data(), columns.size(), weights, fixed, weight, outputs.data(), outputs.size());
}

void add_leaves(const Tree& tree, int depth, const float* tile, float* sums) {
  best_leaves(tree, depth, tile, sums);
}

}  // namespace kvsim
