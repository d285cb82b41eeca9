#pragma once

#include "sim/outputs/altered_attention.h"
#include "sim/replay/configuration_replay.h"
#include "sim/replay/estimator_steps.h"
#include "sim/replay/unit_record.h"

namespace kvsim {

/// Replays an estimator on one unit.
class EstimatorReplay final : public ConfigurationReplay {
 public:
  EstimatorReplay(const Configuration& configuration, ReplayedUnit& unit,
                  const ReplayOptions& options);

  void advance() override;
  void measure() override { record_.add_block(replayed_, deltas_, pending_); }
  std::vector<const OutputDeltas*> deltas() const override { return {&deltas_}; }
  std::vector<Outcome> finish() override;

 private:
  ReplayedUnit& replayed_;
  int prompt_;  // the steps before this one attend in full and are not measured
  EstimatorSteps steps_;
  AlteredAttention attention_;
  UnitRecord record_;
  OutputDeltas deltas_;               // of the block
  std::vector<Measurement> pending_;  // [steps, heads] of the block
};

}  // namespace kvsim
