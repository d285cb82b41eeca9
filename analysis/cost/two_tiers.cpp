#include "analysis/cost/two_tiers.h"

#include <algorithm>
#include <cmath>

namespace kvsim {
namespace {

/// Sequences of so many bytes each next to the weights.
double room_for_sequences(double memory, double weights, double per_sequence) {
  if (weights > memory) return 0;
  return std::floor((memory - weights) / per_sequence);
}

}  // namespace

double device_bytes(const Deployment& deployment, const TwoTiers& tiers) {
  const ModelShape& model = deployment.model;
  return kv_bytes_per_token(model, deployment.kv_bits) * tiers.resident +
         tiers.summary_bytes * model.layers * model.kv_heads;
}

std::optional<std::int64_t> largest_batch(const Deployment& deployment, const TwoTiers& tiers,
                                          int tokens) {
  const double weights = weight_bytes(deployment);
  const double on_host = kv_bytes_per_token(deployment.model, deployment.kv_bits) * tokens;
  const double batch = std::min(
      room_for_sequences(deployment.devices * deployment.device.memory,
                         (1 - deployment.offloaded_weights) * weights,
                         device_bytes(deployment, tiers)),
      room_for_sequences(deployment.host_memory, deployment.offloaded_weights * weights, on_host));
  if (batch >= 0x1p63) return std::nullopt;
  return static_cast<std::int64_t>(batch);
}

Busy decode_step(const Deployment& deployment, const TwoTiers& tiers, std::int64_t batch) {
  const ModelShape& model = deployment.model;
  const double sequences = static_cast<double>(batch);
  const double token_bytes = kv_bytes_per_token(model, deployment.kv_bits);
  const double weights = weight_bytes(deployment);
  const double offloaded = deployment.offloaded_weights * weights;
  const double flops = 2.0 * static_cast<double>(model.parameters) +
                       4.0 * model.layers * model.query_heads * model.head_dim * tiers.attended;
  const double read =
      token_bytes * tiers.attended + tiers.summary_bytes * model.layers * model.kv_heads;
  const Device& device = deployment.device;
  return {
      .compute = sequences * flops / (deployment.devices * device.flops),
      .memory = (weights - offloaded + sequences * read) / (deployment.devices * device.bandwidth),
      .link = (offloaded + sequences * token_bytes * tiers.fetched) /
              (deployment.devices * device.host_link)};
}

CostEstimate estimate(const Deployment& deployment, const TwoTiers& tiers,
                      const Workload& workload) {
  Deployment in_host = deployment;
  in_host.offloaded_cache = 1;
  Workload whole = workload;
  whole.budget = workload.prompt + workload.generate;
  CostEstimate result;
  result.prompt_seconds = prefill(in_host, whole).seconds();
  result.decode_seconds =
      (workload.generate - 1) * decode_step(deployment, tiers, workload.batch).seconds();
  result.tokens_per_second = static_cast<double>(workload.batch) * workload.generate /
                             (result.prompt_seconds + result.decode_seconds);
  return result;
}

}  // namespace kvsim
