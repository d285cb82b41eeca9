#include "sim/protocol/eviction_steps.h"

#include <algorithm>
#include <cstdint>

namespace kvsim {

int EvictionSteps::most_attended(int budget, int step) const {
  if (!protocol_.evicts_once()) return protocol_.most_held(budget);
  const std::int64_t held = std::int64_t{budget} + step - first_measured_;
  return static_cast<int>(std::min<std::int64_t>(held, step));
}

std::vector<int> EvictionSteps::num_evictions(int budget) const {
  std::vector<int> evictions(num_tokens_, 0);
  int held = first_eviction();
  for (int step = first_eviction(); step < num_tokens_; ++step) {
    ++held;
    if (held <= most_held(budget, step)) continue;
    evictions[step] = held - budget;
    held = budget;
  }
  return evictions;
}

}  // namespace kvsim
