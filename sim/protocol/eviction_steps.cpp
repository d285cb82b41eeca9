#include "sim/protocol/eviction_steps.h"

#include <algorithm>
#include <cstdint>

namespace kvsim {

int EvictionSteps::most_attended(int budget, int step) const {
  const std::int64_t size = protocol_.paging.size;
  std::int64_t held = protocol_.most_held(budget);
  if (protocol_.evicts_once()) held = std::int64_t{budget} + step - first_measured_;
  if (held >= step) return step;
  // The missing tokens are whole pages.
  return static_cast<int>(step - (step - held + size - 1) / size * size);
}

std::vector<int> EvictionSteps::num_evictions(int budget) const {
  std::vector<int> evictions(num_tokens_, 0);
  int held = first_eviction();
  for (int step = first_eviction(); step < num_tokens_; ++step) {
    ++held;
    if (held <= most_held(budget, step)) continue;
    evictions[step] = protocol_.paging.pages_for(held - budget) * protocol_.paging.size;
    held -= evictions[step];
  }
  return evictions;
}

}  // namespace kvsim
