#include "oracle/simulation.h"

#include <algorithm>

#include "sim/base/interrupt.h"

namespace kvsim {

Schedule simulate(const EvictionSteps& steps, int budget, EvictionRule& rule) {
  Schedule schedule(steps.num_tokens(), steps.num_tokens());
  const std::vector<int> evictions = steps.num_evictions(budget);
  std::vector<int> resident;
  for (int step = 0; step < steps.num_tokens(); ++step) {
    resident.push_back(step);
    rule.arrive(step);
    for (int count = evictions[step]; count > 0; --count) {
      poll_interrupt();
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
