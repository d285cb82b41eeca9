#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "analysis/devices.h"
#include "analysis/model_shapes.h"

namespace kvsim {

/// A model on some devices and, for what they offload, the host's memory. The devices share
/// weights, cache and work evenly and at no cost, and each has a link to the host of its own.
struct Deployment {
  ModelShape model;
  Device device;
  int devices = 1;
  double weight_bits = 16;             ///< per parameter
  double kv_bits = 16;                 ///< per element of a key or a value
  std::optional<double> weight_bytes;  ///< in place of parameters * weight_bits / 8
  double offloaded_weights = 0;        ///< share in host memory, 0..1
  double offloaded_cache = 0;          ///< the same of the cache
  double host_memory = std::numeric_limits<double>::infinity();  ///< bytes
};

/// `batch` sequences, each of which reads a prompt and generates. After any step a sequence's cache
/// holds at most `budget` tokens; the prompt itself attends in full.
struct Workload {
  std::int64_t batch = 1;
  int prompt = 1;    ///< tokens, at least 1
  int generate = 1;  ///< tokens, at least 1
  int budget = 1;    ///< tokens, at least 1

  /// The most that a sequence's cache holds: min(budget, prompt + generate).
  int tokens() const;
};

/// 2 * layers * KV heads * head_dim elements of `bits` bits (Scissorhands section 2.1 has it for
/// multi-head attention), in bytes.
double kv_bytes_per_token(const ModelShape& model, double bits = 16);

/// In bytes.
double weight_bytes(const Deployment& deployment);

/// The largest batch whose caches, of `tokens` tokens per sequence, fit beside the weights, on the
/// devices and on the host: 0 if the weights alone do not fit, nothing if memory sets no limit.
/// Activations are not counted, as in Scissorhands Table 2.
std::optional<std::int64_t> largest_batch(const Deployment& deployment, int tokens);

enum class Bound { compute, memory, link };

/// "compute", "memory" or "link".
std::string bound_name(Bound bound);

/// How long three engines that work side by side are busy, in seconds.
struct Busy {
  double compute = 0;
  double memory = 0;
  double link = 0;

  /// The roofline: the time of the slowest.
  double seconds() const;
  Bound bound() const;
};

/// One token for each of `batch` sequences whose caches hold `tokens` tokens: 2 FLOPs per parameter
/// plus 4 * layers * query heads * head_dim per cached token. Weights are read once for the batch,
/// a cache once for its sequence; what is offloaded comes over the link instead of from memory.
Busy decode_step(const Deployment& deployment, std::int64_t batch, int tokens);

/// The prompts of all sequences, which yields the first token of each. What the budget keeps of the
/// prompt is written to where the cache lies.
Busy prefill(const Deployment& deployment, const Workload& workload);

/// How long a workload takes, whether it fits or not.
struct Estimate {
  double prompt_seconds = 0;
  double decode_seconds = 0;  ///< of generate - 1 steps

  /// H2O section 5.2: generated tokens / (prompt time + decoding time), over the batch.
  double tokens_per_second = 0;
};

Estimate estimate(const Deployment& deployment, const Workload& workload);

}  // namespace kvsim
