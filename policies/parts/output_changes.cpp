#include "policies/parts/output_changes.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "policies/parts/lane_sums.h"
#include "sim/base/float_lanes.h"
#include "sim/base/vector_targets.h"

namespace kvsim {
namespace {

template <class Target>
using Doubles = typename Vectors<Target>::Doubles;

constexpr std::size_t kLanesOfSums = 8;  // of sum_in_lanes()

double total_of_lanes(const double* lanes) {
  return std::accumulate(lanes, lanes + kLanesOfSums, 0.0);
}

template <class Target>
KVSIM_INLINE OutputProducts move_all(double ratio, const double* value, double* output,
                                     double* error, std::size_t dim) {
  constexpr std::size_t kWidth = kDoubles<Target>;
  constexpr std::size_t kVectors = kLanesOfSums / kWidth;
  Doubles<Target> squares[kVectors] = {};
  Doubles<Target> along[kVectors] = {};
  std::size_t d = 0;
  for (; d + kLanesOfSums <= dim; d += kLanesOfSums) {
    for (std::size_t k = 0; k < kVectors; ++k) {
      const std::size_t at = d + k * kWidth;
      Doubles<Target> of_value;
      Doubles<Target> of_output;
      load(of_value, value + at);
      load(of_output, output + at);
      const Doubles<Target> change = ratio * (of_output - of_value);
      of_output += change;
      store(of_output, output + at);
      squares[k] += of_output * of_output;
      if (error == nullptr) continue;
      Doubles<Target> of_error;
      load(of_error, error + at);
      of_error += change;
      store(of_error, error + at);
      along[k] += of_error * of_output;
    }
  }
  double square_lanes[kLanesOfSums];
  double along_lanes[kLanesOfSums];
  for (std::size_t k = 0; k < kVectors; ++k) {
    store(squares[k], square_lanes + k * kWidth);
    store(along[k], along_lanes + k * kWidth);
  }
  for (; d < dim; ++d) {
    const double change = ratio * (output[d] - value[d]);
    output[d] += change;
    square_lanes[0] += output[d] * output[d];
    if (error == nullptr) continue;
    error[d] += change;
    along_lanes[0] += error[d] * output[d];
  }
  return {total_of_lanes(square_lanes), total_of_lanes(along_lanes)};
}
KVSIM_KERNEL(OutputProducts, move_all,
             (double ratio, const double* value, double* output, double* error, std::size_t dim),
             (ratio, value, output, error, dim))

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

template <class Target, bool kFollows>
KVSIM_INLINE void changes(double weight_sum, const OutputProducts& of_output, const double* weights,
                          std::size_t count, const double* squares, double* along_output,
                          double* along_error, double* scores, const Removal& removal) {
  constexpr std::size_t kWidth = kDoubles<Target>;
  const Doubles<Target> least = Doubles<Target>{} + kLeastWeight;
  const Doubles<Target> zero = {};
  const double removed = removal.ratio;
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
    if constexpr (kFollows) {
      Doubles<Target> product;
      load(product, removal.products + i);
      const Doubles<Target> change = removed * (output - product);
      output += change;
      error += change;
      store(output, along_output + i);
      store(error, along_error + i);
    }
    Doubles<Target> rest = weight_sum - weight;
    rest = rest < least ? least : rest;
    const Doubles<Target> ratio = weight / rest;
    square = square - 2 * output + of_output.output_square;
    square = square < zero ? zero : square;
    error = error - of_output.error_along_output;
    score += ratio * (ratio * square - 2 * error);
    store(score, scores + i);
  }
  for (; i < count; ++i) {
    if constexpr (kFollows) {
      const double change = removed * (along_output[i] - removal.products[i]);
      along_output[i] += change;
      along_error[i] += change;
    }
    const double ratio = weights[i] / std::max(weight_sum - weights[i], kLeastWeight);
    const double square = std::max(squares[i] - 2 * along_output[i] + of_output.output_square, 0.0);
    const double error = along_error[i] - of_output.error_along_output;
    scores[i] += ratio * (ratio * square - 2 * error);
  }
}

template <class Target>
KVSIM_INLINE void add_changes(double weight_sum, const OutputProducts& of_output,
                              const double* weights, std::size_t count, const double* squares,
                              double* along_output, double* along_error, double* scores,
                              const Removal& removal) {
  if (removal.products == nullptr) {
    changes<Target, false>(weight_sum, of_output, weights, count, squares, along_output,
                           along_error, scores, removal);
  } else {
    changes<Target, true>(weight_sum, of_output, weights, count, squares, along_output, along_error,
                          scores, removal);
  }
}
KVSIM_KERNEL(void, add_changes,
             (double weight_sum, const OutputProducts& of_output, const double* weights,
              std::size_t count, const double* squares, double* along_output, double* along_error,
              double* scores, const Removal& removal),
             (weight_sum, of_output, weights, count, squares, along_output, along_error, scores,
              removal))

}  // namespace

OutputProducts output_products(std::span<const double> output, const double* error) {
  const auto dot = [&](const double* x) {
    return sum_in_lanes(output.size(), [&](std::size_t d) { return x[d] * output[d]; });
  };
  return {dot(output.data()), error == nullptr ? 0 : dot(error)};
}

OutputProducts move_output(double ratio, std::span<const double> value, double* output,
                           double* error) {
  return best_move_all(ratio, value.data(), output, error, value.size());
}

void follow_removal(const Removal& removal, std::span<double> along_output, double* along_error) {
  best_follow(removal.ratio, removal.products, along_output.data(), along_error,
              along_output.size());
}

void add_output_changes(double weight_sum, const OutputProducts& of_output,
                        std::span<const double> weights, const double* squares,
                        double* along_output, double* along_error, double* scores,
                        const Removal& removal) {
  best_add_changes(weight_sum, of_output, weights.data(), weights.size(), squares, along_output,
                   along_error, scores, removal);
}

}  // namespace kvsim
