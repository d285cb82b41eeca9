#include "sim/core/curve_kernels.h"

#include <algorithm>
#include <cstring>

#include "sim/core/vector_targets.h"

namespace kvsim {
namespace {

constexpr std::size_t kLanes = 8;
using Lanes = double __attribute__((vector_size(kLanes * sizeof(double))));

// Enough to fill vector registers, few enough to look at one by one.
constexpr std::size_t kPlacesPerTest = 32;

constexpr std::size_t kRowsAtOnce = 4;

KVSIM_INLINE void add_in_order_with(const float* row, std::span<const std::int32_t> order,
                                    double scale, float limit, float* __restrict gathered,
                                    double* __restrict attention, std::int32_t* __restrict count) {
  const std::size_t size = order.size();
  for (std::size_t i = 0; i < size; ++i) gathered[i] = row[order[i]];
  for (std::size_t i = 0; i < size; ++i) attention[i] += gathered[i] * scale;
  for (std::size_t i = 0; i < size; ++i) count[i] += gathered[i] > limit ? 1 : 0;
}

// The inner loop has no branches, so that it becomes vector instructions.
KVSIM_INLINE std::size_t next_low_with(const double* score, double low, std::size_t begin,
                                       std::size_t end) {
  for (; begin < end; begin += kPlacesPerTest) {
    const std::size_t stop = std::min(begin + kPlacesPerTest, end);
    int any = 0;
    for (std::size_t i = begin; i < stop; ++i) any |= score[i] <= low ? -1 : 0;
    if (any != 0) return begin;
  }
  return end;
}

// Several rows at once, which spares reading and writing the sum for each.
KVSIM_INLINE void add_values_with(const double* values, std::size_t dim, const std::int32_t* token,
                                  const double* weight, std::size_t count, double* __restrict sum) {
  const auto row = [&](std::size_t i) { return values + static_cast<std::size_t>(token[i]) * dim; };
  std::size_t i = 0;
  for (; i + kRowsAtOnce <= count; i += kRowsAtOnce) {
    const double* a = row(i);
    const double* b = row(i + 1);
    const double* c = row(i + 2);
    const double* d = row(i + 3);
    const double wa = weight[i];
    const double wb = weight[i + 1];
    const double wc = weight[i + 2];
    const double wd = weight[i + 3];
    for (std::size_t k = 0; k < dim; ++k) {
      sum[k] += (wa * a[k] + wb * b[k]) + (wc * c[k] + wd * d[k]);
    }
  }
  for (; i < count; ++i) {
    const double* a = row(i);
    for (std::size_t k = 0; k < dim; ++k) sum[k] += weight[i] * a[k];
  }
}

KVSIM_INLINE double squared_distance_with(const double* sum, double weight, const double* output,
                                          std::size_t dim) {
  Lanes squares = {};
  std::size_t k = 0;
  for (; k + kLanes <= dim; k += kLanes) {
    Lanes s;
    Lanes o;
    std::memcpy(&s, sum + k, sizeof(s));
    std::memcpy(&o, output + k, sizeof(o));
    s -= weight * o;
    squares += s * s;
  }
  double square = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) square += squares[lane];
  for (; k < dim; ++k) {
    const double difference = sum[k] - weight * output[k];
    square += difference * difference;
  }
  return square;
}

// One set of kernels: NAME stands for the instruction set, TARGET for its attribute.
#define KVSIM_CURVE_KERNELS(NAME, TARGET)                                                         \
  TARGET void add_in_order_##NAME(const float* row, std::span<const std::int32_t> order,          \
                                  double scale, float limit, float* gathered, double* attention,  \
                                  std::int32_t* count) {                                          \
    add_in_order_with(row, order, scale, limit, gathered, attention, count);                      \
  }                                                                                               \
  TARGET std::size_t next_low_##NAME(const double* score, double low, std::size_t begin,          \
                                     std::size_t end) {                                           \
    return next_low_with(score, low, begin, end);                                                 \
  }                                                                                               \
  TARGET void add_values_##NAME(const double* values, std::size_t dim, const std::int32_t* token, \
                                const double* weight, std::size_t count, double* sum) {           \
    add_values_with(values, dim, token, weight, count, sum);                                      \
  }                                                                                               \
  TARGET double squared_distance_##NAME(const double* sum, double weight, const double* output,   \
                                        std::size_t dim) {                                        \
    return squared_distance_with(sum, weight, output, dim);                                       \
  }

KVSIM_CURVE_KERNELS(avx512, KVSIM_AVX512)
KVSIM_CURVE_KERNELS(avx2, KVSIM_AVX2)
KVSIM_CURVE_KERNELS(baseline, )

}  // namespace

const CurveKernels& curve_kernels() {
  static const CurveKernels kernels{
      best_of(&add_in_order_avx512, &add_in_order_avx2, &add_in_order_baseline),
      best_of(&next_low_avx512, &next_low_avx2, &next_low_baseline),
      best_of(&add_values_avx512, &add_values_avx2, &add_values_baseline),
      best_of(&squared_distance_avx512, &squared_distance_avx2, &squared_distance_baseline)};
  return kernels;
}

}  // namespace kvsim
