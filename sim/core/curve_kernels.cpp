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

// The inner loop has no branches, so that it becomes vector instructions.
template <class Target>
KVSIM_INLINE std::size_t find_low(const double* score, double low, std::size_t begin,
                                  std::size_t end) {
  for (; begin < end; begin += kPlacesPerTest) {
    const std::size_t stop = std::min(begin + kPlacesPerTest, end);
    int any = 0;
    for (std::size_t i = begin; i < stop; ++i) any |= score[i] <= low ? -1 : 0;
    if (any != 0) return begin;
  }
  return end;
}
KVSIM_KERNEL(std::size_t, find_low,
             (const double* score, double low, std::size_t begin, std::size_t end),
             (score, low, begin, end))

// Several rows at once, which spares reading and writing the sum for each.
template <class Target>
KVSIM_INLINE void add_rows(const double* values, std::size_t dim, const std::int32_t* token,
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
KVSIM_KERNEL(void, add_rows,
             (const double* values, std::size_t dim, const std::int32_t* token,
              const double* weight, std::size_t count, double* sum),
             (values, dim, token, weight, count, sum))

template <class Target>
KVSIM_INLINE double distance(const double* sum, double weight, const double* output,
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
KVSIM_KERNEL(double, distance,
             (const double* sum, double weight, const double* output, std::size_t dim),
             (sum, weight, output, dim))

}  // namespace

void add_in_order(const float* row, std::span<const std::int32_t> order, double scale, float limit,
                  float* gathered, double* attention, std::int32_t* count) {
  best_gather_and_add(row, order.data(), order.size(), scale, limit, gathered, attention, count);
}

std::size_t next_low(const double* score, double low, std::size_t begin, std::size_t end) {
  return best_find_low(score, low, begin, end);
}

void add_values(const double* values, std::size_t dim, const std::int32_t* token,
                const double* weight, std::size_t count, double* sum) {
  best_add_rows(values, dim, token, weight, count, sum);
}

double squared_distance(const double* sum, double weight, const double* output, std::size_t dim) {
  return best_distance(sum, weight, output, dim);
}

}  // namespace kvsim
