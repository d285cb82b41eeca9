#include "oracle/lookahead/upcoming_outputs.h"

#include <numeric>

namespace kvsim {
namespace {

void divide(const double* numerator, double weight_sum, std::size_t dims, double* cached) {
  for (std::size_t d = 0; d < dims; ++d) {
    cached[d] = weight_sum > 0 ? numerator[d] / weight_sum : 0;
  }
}

}  // namespace

UpcomingOutputs::UpcomingOutputs(const HeldTokens& held, std::size_t steps)
    : weight_(steps, held.capacity()),
      sink_(steps, 1),
      weight_sum_(steps, 1),
      numerator_(steps, held.stride()),
      output_(steps, held.stride()) {}

void UpcomingOutputs::enter(const HeldTokens& held, const AttentionBlock& block,
                            const HeadAttention& head, int row) {
  const int step = block.first_step + row;
  const float* weight = head.weight.row(row).data();
  double* weights = weight_.row(step);
  for (std::size_t slot = 0; slot < held.count(); ++slot) {
    weights[slot] = weight[held.token(slot)] / head.weight_sum[row];
  }
  std::fill(weights + held.count(), weights + held.capacity(), 0);
  *sink_.row(step) = head.sink_weight[row] / head.weight_sum[row];
  *weight_sum_.row(step) = sum_weights(step);
  sum_rows(held.values(), weights, numerator_.row(step));
  const auto output = head.output.row(row);
  std::copy(output.begin(), output.end(), output_.row(step));
}

bool UpcomingOutputs::leave(const HeldTokens& held, int step, std::size_t slot) {
  double* weight = weight_.row(step) + slot;
  double* sum = weight_sum_.row(step);
  const double before = *sum;
  const double taken = *weight;
  *weight = 0;
  if (taken == 0) return true;
  *sum -= taken;
  if (*sum < kDominantRest * before) {
    *sum = sum_weights(step);
    sum_rows(held.values(), weight_.row(step), numerator_.row(step));
    return false;
  }
  add_scaled_doubles(-taken, held.value(slot), held.stride(), numerator_.row(step));
  return true;
}

void UpcomingOutputs::cached(int step, double* cached) const {
  divide(numerator(step), weight_sum(step), output_.columns(), cached);
}

void UpcomingOutputs::error(int step, double* error) const {
  cached(step, error);
  add_scaled_doubles(-1, output(step), output_.columns(), error);
}

void UpcomingOutputs::error_without(const HeldTokens& held, int step, std::size_t slot,
                                    double* error) const {
  std::vector<double> rest(weight(step), weight(step) + held.count());
  rest[slot] = 0;
  std::vector<double> numerator(held.stride());
  sum_rows(held.values(), rest.data(), numerator.data());
  divide(numerator.data(), std::accumulate(rest.begin(), rest.end(), *sink_.row(step)),
         held.stride(), error);
  add_scaled_doubles(-1, output(step), held.stride(), error);
}

std::vector<std::size_t> UpcomingOutputs::dominant(int step) const {
  std::vector<std::size_t> slots;
  for (std::size_t slot = 0; slot < weight_.columns(); ++slot) {
    if (is_dominant(weight(step)[slot], weight_sum(step))) slots.push_back(slot);
  }
  return slots;
}

double UpcomingOutputs::sum_weights(int step) const {
  return std::accumulate(weight(step), weight(step) + weight_.columns(), *sink_.row(step));
}

}  // namespace kvsim
