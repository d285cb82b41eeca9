#include "sim/kernels/error_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/float_lanes.h"
#include "sim/kernels/tolerances.h"

namespace kvsim {
namespace {

// The inner loops are branch-free so that they vectorise.
template <class Target>
KVSIM_INLINE void half_budgets(const float* __restrict weight, int num_places,
                               BlockWeights& __restrict sums) {
  StepDoubles kept = sums.newest;
  StepDoubles squares;
  StepDoubles count{};
  for (int s = 0; s < kBlockSteps; ++s) {
    squares[s] = kept[s] * kept[s];
    kept[s] += sums.sink[s];
  }
  for (int place = 0; place < num_places; ++place, weight += kBlockSteps) {
    for (int s = 0; s < kBlockSteps; ++s) {
      const double w = weight[s];
      count[s] += 2 * kept[s] < sums.total[s] ? 1.0 : 0.0;
      kept[s] += w;
      squares[s] += w * w;
    }
  }
  for (int s = 0; s < kBlockSteps; ++s) sums.half_budget[s] = static_cast<std::int32_t>(count[s]);
  sums.total_squares = squares;
}
KVSIM_KERNEL(void, half_budgets, (const float* weight, int num_places, BlockWeights& sums),
             (weight, num_places, sums))

template <class Target>
KVSIM_INLINE void missing(const float* __restrict weight, int num_places, double* __restrict sum,
                          double* __restrict squares) {
  for (int place = num_places - 1; place >= 0; --place) {
    const float* row = weight + static_cast<std::ptrdiff_t>(place) * kBlockSteps;
    for (int s = 0; s < kBlockSteps; ++s) {
      const double w = row[s];
      sum[s] += w;
      squares[s] += w * w;
    }
  }
}
KVSIM_KERNEL(void, missing, (const float* weight, int num_places, double* sum, double* squares),
             (weight, num_places, sum, squares))

// Rounding is proportional to the expected norm of a sum of independent values with these weights.
// It may matter where the actual sum is much smaller.
template <class Target>
KVSIM_INLINE void differences(const BlockWeights& __restrict weights,
                              const MissingWeight& __restrict missing,
                              const float* __restrict square,
                              const DifferenceScale& __restrict scale,
                              double* __restrict difference, std::int32_t* __restrict inaccurate) {
  for (int s = 0; s < kBlockSteps; ++s) {
    const double kept = weights.total[s] - missing.weight[s];
    difference[s] = double{std::sqrt(square[s])} * scale.unit / kept;
    const double kept_squares = weights.total_squares[s] - missing.squares[s];
    const double summed =
        missing.budget < weights.half_budget[s] ? kept_squares : missing.squares[s];
    const int is_small = square[s] < scale.inaccurate_below * summed ? 1 : 0;
    const int matters = summed > scale.relevant_above[s] * kept * kept ? 1 : 0;
    inaccurate[s] |= is_small & matters & (kept >= kMinWeightSum ? 1 : 0);
  }
}
KVSIM_KERNEL(void, differences,
             (const BlockWeights& weights, const MissingWeight& missing, const float* square,
              const DifferenceScale& scale, double* difference, std::int32_t* inaccurate),
             (weights, missing, square, scale, difference, inaccurate))

// The error of o' is that of its sum over the kept share of the weights.
template <class Target>
KVSIM_INLINE void accuracy(const SumRounding& __restrict head, const CacheSums& cache,
                           DifferenceAccuracy& __restrict of) {
  const double* __restrict square = cache.square;
  const double* __restrict kept = cache.kept;
  const double* __restrict missing_share = cache.missing_share;
  const double most = 1 / cache.precision;
  const double most_if_little = 1 / cache.precision_if_little_kept;
  for (int s = 0; s < kBlockSteps; ++s) {
    const bool is_little = 2 * (kept[s] - head.sink[s]) < head.tokens[s];
    of.difference[s] = std::sqrt(square[s]);
    of.allowed[s] = of.difference[s] * (is_little ? most_if_little : most);
    const double rounding = rounding_of_sum(head, s, missing_share[s]) * head.total[s];
    of.is_inaccurate[s] = rounding <= of.allowed[s] * kept[s] ? 0 : 1;
  }
}
KVSIM_KERNEL(void, accuracy,
             (const SumRounding& head, const CacheSums& cache, DifferenceAccuracy& of),
             (head, cache, of))

// The same order of additions for every width of vectors.
template <class Target>
KVSIM_INLINE double sum_of(const double* x) {
  constexpr int kParts = 8;
  double part[kParts];
  for (int i = 0; i < kParts; i += kDoubles<Target>) {
    typename Vectors<Target>::Doubles quarters[kBlockSteps / kParts];
#pragma GCC unroll 4
    for (int q = 0; q < kBlockSteps / kParts; ++q) load(quarters[q], x + q * kParts + i);
    store((quarters[0] + quarters[1]) + (quarters[2] + quarters[3]), part + i);
  }
  double sum = 0;
  for (const double each : part) sum += each;
  return sum;
}

template <class Target>
KVSIM_INLINE void errors(const double* __restrict difference, const double* __restrict missing,
                         const ErrorScale& __restrict scale, float* __restrict error,
                         ErrorSums& sums) {
  constexpr double kMaxError = std::numeric_limits<float>::max();
  double exact[kBlockSteps];
  double bound[kBlockSteps];
  std::int32_t is_above[kBlockSteps];
  for (int s = 0; s < kBlockSteps; ++s) {
    exact[s] = difference[s] * scale.error[s];
    error[s] = static_cast<float>(std::min(exact[s], kMaxError));
    bound[s] = std::min(missing[s] * scale.bound[s], scale.max_bound[s]);
    is_above[s] = exact[s] > bound[s] * (1 + kBoundTolerance) + scale.slack[s] ? 1 : 0;
  }
  sums.error += sum_of<Target>(exact);
  sums.bound += sum_of<Target>(bound);
  for (int s = 0; s < kBlockSteps; ++s) {
    sums.max_error = std::max(sums.max_error, exact[s]);
    sums.violations += is_above[s];
  }
}
KVSIM_KERNEL(void, errors,
             (const double* difference, const double* missing, const ErrorScale& scale,
              float* error, ErrorSums& sums),
             (difference, missing, scale, error, sums))

}  // namespace

void find_half_budgets(const float* weight, int num_places, BlockWeights& sums) {
  best_half_budgets(weight, num_places, sums);
}

void add_missing(const float* weight, int num_places, StepDoubles& sum, StepDoubles& squares) {
  best_missing(weight, num_places, sum.data(), squares.data());
}

void take_differences(const BlockWeights& weights, const MissingWeight& missing,
                      const float* square, const DifferenceScale& scale, StepDoubles& difference,
                      std::array<std::int32_t, kBlockSteps>& inaccurate) {
  best_differences(weights, missing, square, scale, difference.data(), inaccurate.data());
}

DifferenceAccuracy accuracy_of(const SumRounding& head, const CacheSums& cache) {
  DifferenceAccuracy accuracy;
  best_accuracy(head, cache, accuracy);
  return accuracy;
}

void add_errors(const StepDoubles& difference, const StepDoubles& missing, const ErrorScale& scale,
                float* error, ErrorSums& sums) {
  best_errors(difference.data(), missing.data(), scale, error, sums);
}

}  // namespace kvsim
