#include "sim/replay/estimator_replay.h"

#include "sim/base/interrupt.h"

namespace kvsim {
EstimatorReplay::EstimatorReplay(const Configuration& configuration, ReplayedUnit& unit,
                                 const ReplayOptions& options)
    : replayed_(unit),
      prompt_(options.protocol.first_measured(unit.unit().prompt_length)),
      steps_(configuration.policy, context_of(configuration, unit.unit(), options), prompt_, unit),
      attention_(unit, steps_.rules(), prompt_),
      record_(unit.unit(), options),
      deltas_(unit.unit()) {}

void EstimatorReplay::advance() {
  const AttentionBlock& block = replayed_.block();
  deltas_.reset();
  pending_.clear();
  for (int row = 0; row < block.num_steps; ++row) {
    const int step = block.first_step + row;
    poll_interrupt();
    const auto entries = steps_.run(step);
    if (step < prompt_) continue;
    for (int head = 0; head < replayed_.unit().group_size(); ++head) {
      attention_.estimate(head, row, entries);
      pending_.push_back(attention_.measure(deltas_));
    }
  }
}

std::vector<Outcome> EstimatorReplay::finish() {
  std::vector<Outcome> outcomes;
  outcomes.push_back(std::move(record_).finish(steps_.usage(replayed_.unit().num_tokens()), false));
  outcomes.back().amounts = steps_.amounts();
  return outcomes;
}

}  // namespace kvsim
