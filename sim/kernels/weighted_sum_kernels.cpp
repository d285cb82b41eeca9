#include "sim/kernels/weighted_sum_kernels.h"

#include <cstring>

#include "sim/base/float_lanes.h"

namespace kvsim {
namespace {

/// Vectors of a sum that stay in registers.
template <class Target>
inline constexpr int kTile = Target::kRegisters / 4;

using Four = float __attribute__((vector_size(16)));

KVSIM_INLINE const float* value_of(const WeightedTokens& tokens, std::size_t i) {
  return tokens.value + static_cast<std::size_t>(tokens.token[i]) * tokens.stride;
}

KVSIM_INLINE float weight_of(const WeightedTokens& tokens, std::size_t i) {
  return tokens.weight[i * kBlockSteps];
}

// kVectors vectors of the sums, kept in registers. Two tokens at a time, in separate accumulators,
// so that additions do not wait for each other.
template <class Floats, int kVectors>
KVSIM_INLINE void sum_tile(const WeightedTokens& tokens, std::size_t dim, float* sum) {
  constexpr std::size_t kFloats = sizeof(Floats) / sizeof(float);
  Floats sums[kVectors] = {};
  Floats others[kVectors] = {};
  std::size_t i = 0;
  for (; i + 2 <= tokens.token.size(); i += 2) {
    const float* value = value_of(tokens, i) + dim;
    const float* other = value_of(tokens, i + 1) + dim;
    const float weight = weight_of(tokens, i);
    const float other_weight = weight_of(tokens, i + 1);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      Floats x;
      Floats y;
      load(x, value + v * kFloats);
      load(y, other + v * kFloats);
      sums[v] += x * weight;
      others[v] += y * other_weight;
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    sums[v] += others[v];
    if (i < tokens.token.size()) {
      Floats x;
      load(x, value_of(tokens, i) + dim + v * kFloats);
      sums[v] += x * weight_of(tokens, i);
    }
    store(sums[v], sum + dim + v * kFloats);
  }
}

template <class Target>
KVSIM_INLINE void sum_all(const WeightedTokens& tokens, float* sum) {
  using Floats = typename Vectors<Target>::Floats;
  constexpr std::size_t kFloats = sizeof(Floats) / sizeof(float);
  std::size_t dim = 0;
  for (; dim + kTile<Target> * kFloats <= tokens.stride; dim += kTile<Target> * kFloats) {
    sum_tile<Floats, kTile<Target>>(tokens, dim, sum);
  }
  for (; dim < tokens.stride; dim += kFloats) sum_tile<Floats, 1>(tokens, dim, sum);
}
KVSIM_KERNEL(void, sum_all, (const WeightedTokens& tokens, float* sum), (tokens, sum))

template <class Target>
KVSIM_INLINE void add_floats(const float* __restrict sums, std::size_t dims,
                             double* __restrict sum) {
  for (std::size_t d = 0; d < dims; ++d) sum[d] += sums[d];
}
KVSIM_KERNEL(void, add_floats, (const float* sums, std::size_t dims, double* sum),
             (sums, dims, sum))

// kVectors vectors of the running sum; adds their squares after token i to square[i].
template <class Floats, int kVectors>
KVSIM_INLINE void running_squares_tile(const WeightedTokens& tokens, bool from_first,
                                       const float* output, std::size_t dim, float* sum,
                                       Floats* square) {
  constexpr std::size_t kFloats = sizeof(Floats) / sizeof(float);
  Floats outputs[kVectors];
  Floats sums[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    load(outputs[v], output + dim + v * kFloats);
    load(sums[v], sum + dim + v * kFloats);
  }
  const std::size_t count = tokens.token.size();
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t i = from_first ? k : count - 1 - k;
    const float* value = value_of(tokens, i) + dim;
    const float weight = weight_of(tokens, i);
    Floats squares = square[i];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      Floats x;
      load(x, value + v * kFloats);
      sums[v] += (x - outputs[v]) * weight;
      squares += sums[v] * sums[v];
    }
    square[i] = squares;
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) store(sums[v], sum + dim + v * kFloats);
}

template <class Floats>
KVSIM_INLINE Four folded(const Floats& floats) {
  // NOLINTNEXTLINE(bugprone-sizeof-expression): both are vectors, not pointers
  constexpr int kParts = sizeof(Floats) / sizeof(Four);
  Four part[kParts];
  std::memcpy(part, &floats, sizeof part);
  for (int i = 1; i < kParts; ++i) part[0] += part[i];
  return part[0];
}

KVSIM_INLINE Four pairs(Four a, Four b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
}

template <class Target>
KVSIM_INLINE void running_squares(const WeightedTokens& tokens, bool from_first,
                                  const float* output, float* sum, float* square) {
  using Floats = typename Vectors<Target>::Floats;
  constexpr std::size_t kFloats = sizeof(Floats) / sizeof(float);
  Floats squares[kMaxTokensPerSum];
  const std::size_t whole = (tokens.token.size() + 3) / 4 * 4;
  for (std::size_t i = 0; i < whole; ++i) squares[i] = Floats{};
  std::size_t dim = 0;
  for (; dim + kTile<Target> * kFloats <= tokens.stride; dim += kTile<Target> * kFloats) {
    running_squares_tile<Floats, kTile<Target>>(tokens, from_first, output, dim, sum, squares);
  }
  for (; dim < tokens.stride; dim += kFloats) {
    running_squares_tile<Floats, 1>(tokens, from_first, output, dim, sum, squares);
  }
  for (std::size_t i = 0; i < whole; i += 4) {
    const Four four = pairs(pairs(folded(squares[i]), folded(squares[i + 1])),
                            pairs(folded(squares[i + 2]), folded(squares[i + 3])));
    store(four, square + i);
  }
}
KVSIM_KERNEL(void, running_squares,
             (const WeightedTokens& tokens, bool from_first, const float* output, float* sum,
              float* square),
             (tokens, from_first, output, sum, square))

}  // namespace

void sum_products(const WeightedTokens& tokens, float* sum) { best_sum_all(tokens, sum); }

void add_sums(const float* sums, std::size_t dims, double* sum) {
  best_add_floats(sums, dims, sum);
}

void add_running_squares(const WeightedTokens& tokens, bool from_first, const float* output,
                         float* sum, float* square) {
  best_running_squares(tokens, from_first, output, sum, square);
}

}  // namespace kvsim
