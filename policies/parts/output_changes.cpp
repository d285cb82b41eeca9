#include "policies/parts/output_changes.h"

#include <algorithm>
#include <cstddef>

#include "sim/base/float_lanes.h"
#include "sim/base/vector_targets.h"

namespace kvsim {
namespace {

template <class Target>
using Doubles = typename Vectors<Target>::Doubles;

template <class Target>
KVSIM_INLINE void follow(double ratio, const double* products, double* along_output,
                         double* along_error, std::size_t count) {
  constexpr std::size_t kWidth = kDoubles<Target>;
  std::size_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    Doubles<Target> product;
    Doubles<Target> output;
    load(product, products + i);
    load(output, along_output + i);
    const Doubles<Target> change = ratio * (output - product);
    store(output + change, along_output + i);
    if (along_error == nullptr) continue;
    Doubles<Target> error;
    load(error, along_error + i);
    store(error + change, along_error + i);
  }
  for (; i < count; ++i) {
    const double change = ratio * (along_output[i] - products[i]);
    along_output[i] += change;
    if (along_error != nullptr) along_error[i] += change;
  }
}
KVSIM_KERNEL(void, follow,
             (double ratio, const double* products, double* along_output, double* along_error,
              std::size_t count),
             (ratio, products, along_output, along_error, count))

template <class Target>
KVSIM_INLINE void add_changes(const QueryOutput& query, const double* weights, std::size_t count,
                              const double* squares, const double* along_output,
                              const double* along_error, double* scores) {
  constexpr std::size_t kWidth = kDoubles<Target>;
  const Doubles<Target> least = Doubles<Target>{} + kLeastWeight;
  const Doubles<Target> zero = {};
  std::size_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    Doubles<Target> weight;
    Doubles<Target> square;
    Doubles<Target> output;
    Doubles<Target> error;
    Doubles<Target> score;
    load(weight, weights + i);
    load(square, squares + i);
    load(output, along_output + i);
    load(error, along_error + i);
    load(score, scores + i);
    Doubles<Target> rest = query.weight_sum - weight;
    rest = rest < least ? least : rest;
    const Doubles<Target> ratio = weight / rest;
    square = square - 2 * output + query.output_square;
    square = square < zero ? zero : square;
    error = error - query.error_along_output;
    score += ratio * (ratio * square - 2 * error);
    store(score, scores + i);
  }
  for (; i < count; ++i) {
    const double ratio = weights[i] / std::max(query.weight_sum - weights[i], kLeastWeight);
    const double square = std::max(squares[i] - 2 * along_output[i] + query.output_square, 0.0);
    const double error = along_error[i] - query.error_along_output;
    scores[i] += ratio * (ratio * square - 2 * error);
  }
}
KVSIM_KERNEL(void, add_changes,
             (const QueryOutput& query, const double* weights, std::size_t count,
              const double* squares, const double* along_output, const double* along_error,
              double* scores),
             (query, weights, count, squares, along_output, along_error, scores))

}  // namespace

void follow_removal(double ratio, const double* products, std::span<double> along_output,
                    double* along_error) {
  best_follow(ratio, products, along_output.data(), along_error, along_output.size());
}

void add_output_changes(const QueryOutput& query, std::span<const double> weights,
                        const double* squares, const double* along_output,
                        const double* along_error, double* scores) {
  best_add_changes(query, weights.data(), weights.size(), squares, along_output, along_error,
                   scores);
}

}  // namespace kvsim
