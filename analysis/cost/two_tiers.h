#pragma once

#include "analysis/cost/cost.h"

namespace kvsim {

/// What a step of one sequence needs where all keys and values lie in host memory and the device
/// holds some: per KV head, means as the table `fetch` has them.
struct TwoTiers {
  double resident = 0;       ///< tokens on the device
  double attended = 0;       ///< tokens that a step attends to
  double fetched = 0;        ///< tokens that a step fetches over the link
  double summary_bytes = 0;  ///< on the device for the selector, and read at every step
};

/// The bytes of one sequence on the devices: its resident tokens, and what the selector reads.
double device_bytes(const Deployment& deployment, const TwoTiers& tiers);

/// The largest batch whose sequences of `tokens` tokens fit in host memory, and their resident
/// tokens next to the weights; as largest_batch() of one tier.
std::optional<std::int64_t> largest_batch(const Deployment& deployment, const TwoTiers& tiers,
                                          int tokens);

/// As decode_step() of one tier: attention is to the tokens attended to, which are read from memory
/// with the selector's summaries, and the fetched ones come over the link. To choose takes no time
/// of its own.
Busy decode_step(const Deployment& deployment, const TwoTiers& tiers, std::int64_t batch);

/// How long a workload takes; its budget has no part. The prompt attends in full and all of it is
/// written to host memory.
CostEstimate estimate(const Deployment& deployment, const TwoTiers& tiers,
                      const Workload& workload);

}  // namespace kvsim
