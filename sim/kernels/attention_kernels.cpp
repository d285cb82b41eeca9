#include "sim/kernels/attention_kernels.h"

#include <algorithm>
#include <limits>

#include "sim/base/float_lanes.h"
#include "sim/kernels/transpose_tile.h"

namespace kvsim {
namespace {

// The product of some queries and two vectors of keys of a panel. The sums stay in registers.
template <class Target, int kQueries>
KVSIM_INLINE void multiply_tile(const float* panel, const float* query, int dim, float* logit,
                                int stride) {
  using Floats = typename Vectors<Target>::Floats;
  Floats sum[kQueries][2] = {};
  for (int k = 0; k < dim; ++k) {
    Floats first;
    Floats second;
    load(first, panel + k * kBlockSteps);
    load(second, panel + k * kBlockSteps + kFloats<Target>);
#pragma GCC unroll 8
    for (int q = 0; q < kQueries; ++q) {
      sum[q][0] += first * query[q * dim + k];
      sum[q][1] += second * query[q * dim + k];
    }
  }
#pragma GCC unroll 8
  for (int q = 0; q < kQueries; ++q) {
    store(sum[q][0], logit + q * stride);
    store(sum[q][1], logit + q * stride + kFloats<Target>);
  }
}

template <class Target>
KVSIM_INLINE void multiply_panel(const float* panel, const float* query, int dim, int num_steps,
                                 float* logit, int stride) {
  // Most of the registers hold sums: of 16 twelve, of 32 sixteen.
  constexpr int kQueries = Target::kRegisters == 16 ? 6 : 8;
  for (int key = 0; key < kBlockSteps; key += 2 * kFloats<Target>) {
    int step = 0;
    for (; step + kQueries <= num_steps; step += kQueries) {
      multiply_tile<Target, kQueries>(panel + key, query + step * dim, dim,
                                      logit + step * stride + key, stride);
    }
    for (; step + 2 <= num_steps; step += 2) {
      multiply_tile<Target, 2>(panel + key, query + step * dim, dim, logit + step * stride + key,
                               stride);
    }
    for (; step < num_steps; ++step) {
      multiply_tile<Target, 1>(panel + key, query + step * dim, dim, logit + step * stride + key,
                               stride);
    }
  }
}
KVSIM_KERNEL(void, multiply_panel,
             (const float* panel, const float* query, int dim, int num_steps, float* logit,
              int stride),
             (panel, query, dim, num_steps, logit, stride))

// 2^k as a float, for the exponents k of normal numbers.
template <class Ints, class Floats>
KVSIM_INLINE void power_of_two(const Ints& k, Floats& power) {
  power = (Floats)((k + 127) << 23);
}

// exp(x) for x <= 0: 2^k times a polynomial of degree 6 on [-ln 2 / 2, ln 2 / 2], within 2 ulp. 2^k
// is applied in two factors because the smallest results are subnormal.
template <class Target>
KVSIM_INLINE void exponential(typename Vectors<Target>::Floats& x) {
  using Floats = typename Vectors<Target>::Floats;
  using Ints = typename Vectors<Target>::Ints;
  constexpr float kRounding = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  constexpr std::int32_t kRoundingBits = 0x4B400000;
  constexpr float kMinLogit = -104.0F;  // below it exp() is 0
  x = x > kMinLogit ? x : Floats{} + kMinLogit;
  const Floats shifted = x * 1.44269504F + kRounding;
  const Floats k = shifted - kRounding;
  const Floats r = (x - k * 0.693359375F) + k * 2.12194440e-4F;
  Floats p = r * 1.3888889e-3F + 8.3333333e-3F;
  p = p * r + 4.1666667e-2F;
  p = p * r + 1.6666667e-1F;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const Ints exponent = (Ints)shifted - kRoundingBits;
  const Ints half = exponent >> 1;
  Floats first;
  Floats second;
  power_of_two(half, first);
  power_of_two(exponent - half, second);
  x = p * first * second;
}

// Sums over every kSums-th number, whatever the width of a vector, so that all instruction sets
// round alike.
constexpr int kSums = 16;

template <class Target>
KVSIM_INLINE void add_exponentials(const float* logit, float max_logit, float* weight,
                                   typename Vectors<Target>::Doubles* sums) {
  constexpr int kWidth = kFloats<Target>;
#pragma GCC unroll 4
  for (int part = 0; part < kSums / kWidth; ++part) {
    typename Vectors<Target>::Floats x;
    load(x, logit + part * kWidth);
    x -= max_logit;
    exponential<Target>(x);
    store(x, weight + part * kWidth);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      typename Vectors<Target>::Doubles doubles;
      convert(doubles, weight + part * kWidth + half * kDoubles<Target>);
      sums[2 * part + half] += doubles;
    }
  }
}

// Pads the last numbers with minus infinity, so that every element takes the same instructions.
template <class Target>
KVSIM_INLINE double weigh(const float* logit, int count, float* weight, float& offset) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  using Floats = typename Vectors<Target>::Floats;
  using Doubles = typename Vectors<Target>::Doubles;
  const int whole = count / kSums * kSums;
  float last[kSums];
  std::fill_n(last, kSums, kNone);
  std::copy_n(logit + whole, count - whole, last);
  Floats largest = Floats{} + kNone;
  Floats x;
  for (int i = 0; i < whole; i += kFloats<Target>) {
    load(x, logit + i);
    largest = x > largest ? x : largest;
  }
  float max_logit = *std::max_element(last, last + kSums);
  max_logit = std::max(max_logit, offset);
  for (int i = 0; i < kFloats<Target>; ++i) max_logit = std::max(max_logit, largest[i]);
  offset = max_logit;
  Doubles sums[kSums / kDoubles<Target>] = {};
  add_exponentials<Target>(last, max_logit, last, sums);
  std::copy_n(last, count - whole, weight + whole);
  for (int i = 0; i < whole; i += kSums) {
    add_exponentials<Target>(logit + i, max_logit, weight + i, sums);
  }
  double sum = 0;
  for (const Doubles& some : sums) {
    for (int i = 0; i < kDoubles<Target>; ++i) sum += some[i];
  }
  return sum;
}
KVSIM_KERNEL(double, weigh, (const float* logit, int count, float* weight, float& offset),
             (logit, count, weight, offset))

// Packs eight bytes of 0 or 1 into eight bits.
KVSIM_INLINE std::uint64_t pack_bits(const std::uint8_t* flags) {
  std::uint64_t bytes;
  std::memcpy(&bytes, flags, sizeof bytes);
  return (bytes * 0x0102040810204080U) >> 56;
}

template <class Target>
KVSIM_INLINE int mark(const float* weight, std::size_t count, float threshold,
                      std::uint64_t* above) {
  int marked = 0;
  for (std::size_t first = 0; first < count; first += 64) {
    std::uint8_t flags[64] = {};
    if (count - first >= 64) {
      for (std::size_t i = 0; i < 64; ++i) flags[i] = weight[first + i] > threshold;
    } else {
      for (std::size_t i = 0; i < count - first; ++i) flags[i] = weight[first + i] > threshold;
    }
    std::uint64_t word = 0;
    for (std::size_t byte = 0; byte < 8; ++byte) word |= pack_bits(flags + 8 * byte) << (8 * byte);
    above[first / 64] = word;
    marked += __builtin_popcountll(word);
  }
  return marked;
}
KVSIM_KERNEL(int, mark,
             (const float* weight, std::size_t count, float threshold, std::uint64_t* above),
             (weight, count, threshold, above))

}  // namespace

KeyPanels::KeyPanels(const Matrix& key, float scale) : KeyPanels(key.cols(), scale) {
  for (int token = 0; token < key.rows(); ++token) put(token, key.row(token).data());
}

void KeyPanels::put(int place, const float* key) {
  const auto index = static_cast<std::size_t>(place / kBlockSteps);
  while (panels_.size() <= index) {
    AlignedRows& added = panels_.emplace_back(dim_, kBlockSteps);
    std::fill_n(added.row(0), dim_ * kBlockSteps, 0.0F);
  }
  float* panel = panels_[index].row(0) + place % kBlockSteps;
  for (int k = 0; k < dim_; ++k) panel[k * kBlockSteps] = scale_ * key[k];
}

void KeyPanels::multiply(const float* query, int num_steps, int width, float* logit) const {
  for (int token = 0; token < width; token += kBlockSteps) {
    const float* panel = panels_[static_cast<std::size_t>(token / kBlockSteps)].row(0);
    const int count = std::min(kBlockSteps, width - token);
    if (count == kBlockSteps) {
      best_multiply_panel(panel, query, dim_, num_steps, logit + token, width);
      continue;
    }
    float whole[kBlockSteps * kBlockSteps];
    best_multiply_panel(panel, query, dim_, num_steps, whole, kBlockSteps);
    for (int step = 0; step < num_steps; ++step) {
      std::copy_n(whole + step * kBlockSteps, count,
                  logit + static_cast<std::ptrdiff_t>(step) * width + token);
    }
  }
}

double exponentials(std::span<const float> logit, float* weight, float& offset) {
  return best_weigh(logit.data(), static_cast<int>(logit.size()), weight, offset);
}

void arrange_by_token(const float* weight, int num_steps, int width, AlignedRows& by_token) {
  by_token.resize(width, kBlockSteps);
  if (num_steps < kBlockSteps) std::fill_n(by_token.row(0), width * kBlockSteps, 0.0F);
  const auto row = [&](int step) { return weight + static_cast<std::ptrdiff_t>(step) * width; };
  const int whole_steps = num_steps / kTile * kTile;
  const int whole_tokens = width / kTile * kTile;
  for (int token = 0; token < whole_tokens; token += kTile) {
    float* const to[kTile] = {by_token.row(token), by_token.row(token + 1), by_token.row(token + 2),
                              by_token.row(token + 3)};
    for (int step = 0; step < whole_steps; step += kTile) {
      const float* const from[kTile] = {row(step), row(step + 1), row(step + 2), row(step + 3)};
      transpose_tile(from, token, to, step);
    }
  }
  for (int step = 0; step < num_steps; ++step) {
    const int first = step < whole_steps ? whole_tokens : 0;
    for (int token = first; token < width; ++token) by_token.row(token)[step] = row(step)[token];
  }
}

int mark_above(std::span<const float> weight, float threshold, std::uint64_t* above) {
  return best_mark(weight.data(), weight.size(), threshold, above);
}

}  // namespace kvsim
