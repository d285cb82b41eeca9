#include "policies/mean_direction.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sim/base/float_lanes.h"

namespace kvsim {
namespace {

template <class Target>
using Numbers = typename Vectors<Target>::Doubles;

/// The sums that a product of vectors consists of. Every instruction set has as many.
constexpr std::size_t kPartialSums = 8;

template <class Target>
KVSIM_INLINE void load_wide(Numbers<Target>& wide, const float* from) {
  typename Vectors<Target>::HalfFloats narrow;
  load(narrow, from);
  convert(wide, narrow);
}

// Of kVectors vectors of dimensions from `first` on, in registers.
template <class Target, std::size_t kVectors>
KVSIM_INLINE void add_directions_tile(const ResidentVectors& vectors,
                                      std::span<const double> shares, std::size_t first,
                                      double* sum) {
  Numbers<Target> sums[kVectors] = {};
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const float* vector = vectors[i].data() + first;
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors; ++v) {
      Numbers<Target> numbers;
      load_wide<Target>(numbers, vector + v * kDoubles<Target>);
      sums[v] += shares[i] * numbers;
    }
  }
#pragma GCC unroll 8
  for (std::size_t v = 0; v < kVectors; ++v) store(sums[v], sum + first + v * kDoubles<Target>);
}

/// sum = the sum over i of shares[i] * vectors[i].
template <class Target>
KVSIM_INLINE void add_directions(const ResidentVectors& vectors, std::span<const double> shares,
                                 double* sum) {
  constexpr std::size_t kVectors = Target::kRegisters / 4;
  constexpr std::size_t kDims = kVectors * kDoubles<Target>;
  std::size_t d = 0;
  for (; d + kDims <= vectors.dim(); d += kDims) {
    add_directions_tile<Target, kVectors>(vectors, shares, d, sum);
  }
  for (; d + kDoubles<Target> <= vectors.dim(); d += kDoubles<Target>) {
    add_directions_tile<Target, 1>(vectors, shares, d, sum);
  }
  for (; d < vectors.dim(); ++d) {
    sum[d] = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) sum[d] += shares[i] * vectors[i][d];
  }
}
KVSIM_KERNEL(void, add_directions,
             (const ResidentVectors& vectors, std::span<const double> shares, double* sum),
             (vectors, shares, sum))

// Several vectors at a time, so that additions do not wait for one another.
template <class Target, std::size_t kCount>
KVSIM_INLINE void project_some(const ResidentVectors& vectors, std::size_t begin,
                               const double* mean, double* product) {
  constexpr std::size_t kParts = kPartialSums / kDoubles<Target>;
  Numbers<Target> sums[kCount][kParts] = {};
  std::size_t d = 0;
  for (; d + kPartialSums <= vectors.dim(); d += kPartialSums) {
#pragma GCC unroll 4
    for (std::size_t part = 0; part < kParts; ++part) {
      const std::size_t at = d + part * kDoubles<Target>;
      Numbers<Target> other;
      load(other, mean + at);
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kCount; ++i) {
        Numbers<Target> numbers;
        load_wide<Target>(numbers, vectors[begin + i].data() + at);
        sums[i][part] += numbers * other;
      }
    }
  }
  double lanes[kCount][kPartialSums];
  for (std::size_t i = 0; i < kCount; ++i) {
    for (std::size_t part = 0; part < kParts; ++part) {
      store(sums[i][part], lanes[i] + part * kDoubles<Target>);
    }
    for (std::size_t rest = d; rest < vectors.dim(); ++rest) {
      lanes[i][0] += vectors[begin + i][rest] * mean[rest];
    }
    product[i] = 0;
  }
  for (std::size_t lane = 0; lane < kPartialSums; ++lane) {
    for (std::size_t i = 0; i < kCount; ++i) product[i] += lanes[i][lane];
  }
}

/// products[i] = <vectors[i], mean>.
template <class Target>
KVSIM_INLINE void project(const ResidentVectors& vectors, const double* mean,
                          std::span<double> products) {
  constexpr std::size_t kCount = Target::kRegisters >= 32 ? 8 : 2;
  std::size_t i = 0;
  for (; i + kCount <= products.size(); i += kCount) {
    project_some<Target, kCount>(vectors, i, mean, products.data() + i);
  }
  for (; i < products.size(); ++i) {
    project_some<Target, 1>(vectors, i, mean, products.data() + i);
  }
}
KVSIM_KERNEL(void, project,
             (const ResidentVectors& vectors, const double* mean, std::span<double> products),
             (vectors, mean, products))

}  // namespace

void MeanDirection::add(int index, std::span<const float> vector) {
  const double square = std::inner_product(vector.begin(), vector.end(), vector.begin(), 0.0);
  // A zero vector has no direction; the least double keeps its cosine at 0.
  const double length = std::max(std::sqrt(square), std::numeric_limits<double>::min());
  lengths_.resize(static_cast<std::size_t>(index) + 1);
  lengths_.back() = length;
  inverse_lengths_.resize(lengths_.size());
  inverse_lengths_.back() = 1 / length;
}

void MeanDirection::score(std::span<const std::int32_t> tokens, const ResidentVectors& vectors,
                          std::span<double> scores) {
  shares_.resize(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    shares_[i] = inverse_lengths_[static_cast<std::size_t>(tokens[i])];
  }
  // Not divided by the length of the mean, which scales all cosines by the same factor.
  mean_.resize(vectors.dim());
  best_add_directions(vectors, shares_, mean_.data());
  best_project(vectors, mean_.data(), scores);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    scores[i] = -scores[i] / lengths_[static_cast<std::size_t>(tokens[i])];
  }
}

}  // namespace kvsim
