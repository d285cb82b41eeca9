#include "sim/replay/sampled_metrics.h"

#include <numeric>

namespace kvsim {

void SampledMetrics::add(const Measurement& measurement) {
  const bool is_new_step = count_++ % static_cast<std::size_t>(group_size_) == 0;
  const auto add_to = [&](std::vector<double>& sums, double number) {
    if (is_new_step) sums.push_back(0);
    sums.back() += number;
  };
  add_to(sums_.loss, measurement.attention_loss);
  add_to(sums_.accesses, measurement.accesses);
  add_to(sums_.misses, measurement.misses);
  add_to(sums_.error, measurement.error);
  add_to(sums_.squared, measurement.squared);
  add_to(sums_.predicted_kl, measurement.predicted_kl);
  add_to(sums_.bound, measurement.bound);
}

std::vector<SampledInterval> SampledMetrics::intervals(const Result& result) const {
  std::vector<std::size_t> steps(sums_.loss.size());
  std::iota(steps.begin(), steps.end(), 0);
  const PairedBootstrap bootstrap(std::move(steps));
  const double heads = group_size_;
  std::vector<SampledInterval> intervals;
  const auto add_mean = [&](const char* metric, std::vector<double> values, double scale) {
    for (double& value : values) value *= scale;
    intervals.push_back({metric, bootstrap.mean(values).interval});
  };
  std::vector<double> recall = sums_.loss;
  for (double& loss : recall) loss = heads - loss;
  add_mean("attention_recall", recall, 1 / heads);
  add_mean("attention_loss", sums_.loss, 1 / heads);
  const auto miss_rate = bootstrap.ratio(sums_.misses, sums_.accesses);
  intervals.push_back({"miss_rate", miss_rate ? miss_rate->interval : std::nullopt});
  add_mean("output_error_mean", sums_.error, 1 / heads);
  add_mean("output_error_sq", sums_.squared, 1 / heads);
  // Those of the query heads of a group add up.
  if (result.predicted_kl) add_mean("predicted_kl", sums_.predicted_kl, 1);
  if (result.bound_mean) add_mean("bound_mean", sums_.bound, 1 / heads);
  return intervals;
}

}  // namespace kvsim
