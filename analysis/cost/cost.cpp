#include "analysis/cost/cost.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace kvsim {
namespace {

/// FLOPs for one query token to attend to one cached token, in all heads of all layers: a
/// multiplication and an addition per element of the key and of the value.
double attention_flops(const ModelShape& model) {
  return 4.0 * model.layers * model.query_heads * model.head_dim;
}

/// The number of sequences of `per_sequence` bytes each that fit next to the weights.
double room(double memory, double weights, double per_sequence) {
  if (weights > memory) return 0;
  return per_sequence > 0 ? std::floor((memory - weights) / per_sequence)
                          : std::numeric_limits<double>::infinity();
}

Busy busy(const Deployment& deployment, double flops, double cache_bytes) {
  const double weights = weight_bytes(deployment);
  const double offloaded =
      deployment.offloaded_weights * weights + deployment.offloaded_cache * cache_bytes;
  return {.compute = flops / (deployment.devices * deployment.device.flops),
          .memory = (weights + cache_bytes - offloaded) /
                    (deployment.devices * deployment.device.bandwidth),
          .link = offloaded / (deployment.devices * deployment.device.host_link)};
}

}  // namespace

int Workload::tokens() const { return std::min(budget, prompt + generate); }

double kv_bytes_per_token(const ModelShape& model, double bits) {
  return 2.0 * model.layers * model.kv_heads * model.head_dim * bits / 8;
}

double weight_bytes(const Deployment& deployment) {
  return deployment.weight_bytes.value_or(static_cast<double>(deployment.model.parameters) *
                                          deployment.weight_bits / 8);
}

std::optional<std::int64_t> largest_batch(const Deployment& deployment, int tokens) {
  const double weights = weight_bytes(deployment);
  const double sequence = kv_bytes_per_token(deployment.model, deployment.kv_bits) * tokens;
  const double on_devices = room(deployment.devices * deployment.device.memory,
                                 (1 - deployment.offloaded_weights) * weights,
                                 (1 - deployment.offloaded_cache) * sequence);
  const double on_host = room(deployment.host_memory, deployment.offloaded_weights * weights,
                              deployment.offloaded_cache * sequence);
  const double batch = std::min(on_devices, on_host);
  if (batch >= 0x1p63) return std::nullopt;  // infinite, or too large for an integer
  return static_cast<std::int64_t>(batch);
}

std::string bound_name(Bound bound) {
  static const std::vector<std::string> names{"compute", "memory", "link"};
  return names[static_cast<std::size_t>(bound)];
}

double Busy::seconds() const { return std::max({compute, memory, link}); }

Bound Busy::bound() const {
  if (link > memory && link > compute) return Bound::link;
  return memory > compute ? Bound::memory : Bound::compute;
}

Busy decode_step(const Deployment& deployment, std::int64_t batch, int tokens) {
  const double flops = 2.0 * static_cast<double>(deployment.model.parameters) +
                       attention_flops(deployment.model) * tokens;
  const double sequences = static_cast<double>(batch);
  return busy(deployment, sequences * flops,
              sequences * kv_bytes_per_token(deployment.model, deployment.kv_bits) * tokens);
}

Busy prefill(const Deployment& deployment, const Workload& workload) {
  const double prompt = workload.prompt;
  // The prompt's token t attends to t + 1 tokens.
  const double flops = 2.0 * static_cast<double>(deployment.model.parameters) * prompt +
                       attention_flops(deployment.model) * prompt * (prompt + 1) / 2;
  const double kept = std::min(workload.prompt, workload.budget);
  const double sequences = static_cast<double>(workload.batch);
  return busy(deployment, sequences * flops,
              sequences * kv_bytes_per_token(deployment.model, deployment.kv_bits) * kept);
}

CostEstimate estimate(const Deployment& deployment, const Workload& workload) {
  CostEstimate result;
  result.prompt_seconds = prefill(deployment, workload).seconds();
  for (int i = 1; i < workload.generate; ++i) {
    const int tokens = std::min(workload.prompt + i, workload.budget);
    result.decode_seconds += decode_step(deployment, workload.batch, tokens).seconds();
  }
  result.tokens_per_second = static_cast<double>(workload.batch) * workload.generate /
                             (result.prompt_seconds + result.decode_seconds);
  return result;
}

}  // namespace kvsim
