#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "analysis/cost/devices.h"
#include "analysis/cost/model_shapes.h"

namespace kvsim {

/// A model on one or more devices, with offloading to host memory. Weights, cache and work are
/// split evenly over the devices, without communication cost; each device has its own link to the
/// host.
struct Deployment {
  ModelShape model;
  Device device;
  int devices = 1;
  double weight_bits = 16;             ///< per parameter
  double kv_bits = 16;                 ///< per element of a key or a value
  std::optional<double> weight_bytes;  ///< replaces parameters * weight_bits / 8
  double offloaded_weights = 0;        ///< share of the weights in host memory, 0..1
  double offloaded_cache = 0;          ///< share of the cache in host memory, 0..1
  double host_memory = std::numeric_limits<double>::infinity();  ///< bytes
};

/// `batch` sequences of a prompt and generated tokens. After any step a sequence's cache holds at
/// most `budget` tokens; the tokens of the prompt attend in full.
struct Workload {
  std::int64_t batch = 1;
  int prompt = 1;    ///< tokens, at least 1
  int generate = 1;  ///< tokens, at least 1
  int budget = 1;    ///< tokens, at least 1

  /// The most tokens that a sequence's cache holds: min(budget, prompt + generate).
  int tokens() const;
};

/// Bytes of K and V per token: 2 * layers * KV heads * head_dim elements of `bits` bits (for
/// multi-head attention: Scissorhands section 2.1).
double kv_bytes_per_token(const ModelShape& model, double bits = 16);

/// Bytes of the weights.
double weight_bytes(const Deployment& deployment);

/// The largest batch whose caches, of `tokens` tokens per sequence, fit next to the weights, on the
/// devices and on the host: 0 if the weights alone do not fit, nullopt if memory sets no limit.
/// Activations are not counted, as in Scissorhands Table 2.
std::optional<std::int64_t> largest_batch(const Deployment& deployment, int tokens);

/// The resource that limits a step.
enum class Bound { compute, memory, link };

/// "compute", "memory" or "link".
std::string bound_name(Bound bound);

/// How long three resources that work in parallel are busy, in seconds.
struct Busy {
  double compute = 0;
  double memory = 0;
  double link = 0;

  /// The time of the slowest, as in the roofline model.
  double seconds() const;
  Bound bound() const;
};

/// A step that generates one token for each of `batch` sequences, whose caches hold `tokens` tokens
/// each. FLOPs per sequence: 2 * parameters + 4 * layers * query heads * head_dim * tokens. The
/// weights are read once per batch, a cache once per sequence; offloaded parts are read over the
/// link instead of from memory.
Busy decode_step(const Deployment& deployment, std::int64_t batch, int tokens);

/// The prompts of all sequences at once, which yields the first token of each. The tokens that the
/// budget keeps are written to the cache, the offloaded share of it over the link.
Busy prefill(const Deployment& deployment, const Workload& workload);

/// How long a workload takes, whether or not it fits in memory.
struct CostEstimate {
  double prompt_seconds = 0;
  double decode_seconds = 0;  ///< for generate - 1 steps

  /// H2O section 5.2: generated tokens / (prompt time + decoding time), over the batch.
  double tokens_per_second = 0;
};

CostEstimate estimate(const Deployment& deployment, const Workload& workload);

}  // namespace kvsim
