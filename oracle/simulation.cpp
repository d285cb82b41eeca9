#include "oracle/simulation.h"

#include <algorithm>

namespace kvsim {

Schedule simulate(const FutureAttention& attention, int budget, EvictionRule& rule) {
  Schedule schedule(attention.num_tokens(), attention.num_tokens());
  const std::vector<int> evictions = attention.num_evictions(budget);
  std::vector<int> resident;
  for (int step = 0; step < attention.num_tokens(); ++step) {
    resident.push_back(step);
    rule.arrive(step);
    for (int count = evictions[step]; count > 0; --count) {
      auto victim = resident.begin();
      double least = rule.loss(*victim, step);
      for (auto token = victim + 1; token != resident.end(); ++token) {
        const double loss = rule.loss(*token, step);
        if (loss >= least) continue;
        least = loss;
        victim = token;
      }
      schedule[*victim] = step;
      rule.leave(*victim);
      resident.erase(victim);
    }
  }
  return schedule;
}

}  // namespace kvsim
