#include "sim/attention/eviction_steps.h"

#include "sim/attention/mode.h"

namespace kvsim {

std::vector<int> EvictionSteps::num_evictions(int budget) const {
  std::vector<int> evictions(num_tokens_, 0);
  int held = first_eviction();
  for (int step = first_eviction(); step < num_tokens_; ++step) {
    ++held;
    const bool is_prompt_end = step + 1 == first_measured_;
    if (held <= most_held(budget, eviction_interval_, is_prompt_end)) continue;
    evictions[step] = held - budget;
    held = budget;
  }
  return evictions;
}

}  // namespace kvsim
