#include "sim/kernels/curve_kernels.h"

#include <algorithm>

#include "sim/base/vector_targets.h"

namespace kvsim {
namespace {

constexpr std::size_t kLanes = 8;

// Places that are tested together.
constexpr std::size_t kGroup = 32;

template <class Target>
KVSIM_INLINE void gather_and_add(const float* row, const std::int32_t* order, std::size_t size,
                                 double scale, float limit, float* __restrict gathered,
                                 double* __restrict attention, std::int32_t* __restrict count) {
  for (std::size_t i = 0; i < size; ++i) gathered[i] = row[order[i]];
  for (std::size_t i = 0; i < size; ++i) attention[i] += gathered[i] * scale;
  for (std::size_t i = 0; i < size; ++i) count[i] += gathered[i] > limit ? 1 : 0;
}
KVSIM_KERNEL(void, gather_and_add,
             (const float* row, const std::int32_t* order, std::size_t size, double scale,
              float limit, float* gathered, double* attention, std::int32_t* count),
             (row, order, size, scale, limit, gathered, attention, count))

template <class Target>
KVSIM_INLINE void gather_scores(const double* row, const std::int32_t* order, std::size_t begin,
                                std::size_t end, double* __restrict gathered) {
  for (std::size_t i = begin; i < end; ++i) gathered[i] = row[order[i]];
}
KVSIM_KERNEL(void, gather_scores,
             (const double* row, const std::int32_t* order, std::size_t begin, std::size_t end,
              double* gathered),
             (row, order, begin, end, gathered))

// The inner loop is branch-free so that it vectorises.
template <class Target>
KVSIM_INLINE std::size_t first_group_with_low(const double* score, double low, std::size_t begin,
                                              std::size_t end) {
  for (; begin < end; begin += kGroup) {
    const std::size_t stop = std::min(begin + kGroup, end);
    int any = 0;
    for (std::size_t i = begin; i < stop; ++i) any |= score[i] <= low ? -1 : 0;
    if (any != 0) return begin;
  }
  return end;
}
KVSIM_KERNEL(std::size_t, first_group_with_low,
             (const double* score, double low, std::size_t begin, std::size_t end),
             (score, low, begin, end))

template <class Target>
KVSIM_INLINE double distance(const double* sum, double weight, const double* output,
                             std::size_t dim) {
  double squares[kLanes] = {};
  std::size_t k = 0;
  for (; k + kLanes <= dim; k += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double difference = sum[k + lane] - weight * output[k + lane];
      squares[lane] += difference * difference;
    }
  }
  double square = 0;
  for (const double partial : squares) square += partial;
  for (; k < dim; ++k) {
    const double difference = sum[k] - weight * output[k];
    square += difference * difference;
  }
  return square;
}
KVSIM_KERNEL(double, distance,
             (const double* sum, double weight, const double* output, std::size_t dim),
             (sum, weight, output, dim))

}  // namespace

void add_in_order(const float* row, std::span<const std::int32_t> order, double scale, float limit,
                  float* gathered, double* attention, std::int32_t* count) {
  best_gather_and_add(row, order.data(), order.size(), scale, limit, gathered, attention, count);
}

void gather(const double* row, std::span<const std::int32_t> order, std::size_t begin,
            double* gathered) {
  best_gather_scores(row, order.data(), begin, order.size(), gathered);
}

std::size_t skip_higher_scores(const double* score, double low, std::size_t begin,
                               std::size_t end) {
  return best_first_group_with_low(score, low, begin, end);
}

double squared_distance(const double* sum, double weight, const double* output, std::size_t dim) {
  return best_distance(sum, weight, output, dim);
}

}  // namespace kvsim
