#pragma once

#include <memory>
#include <span>

#include "sim/outputs/replayed_unit.h"
#include "sim/replay/replay.h"

namespace kvsim {

/// Replays one configuration on the units that it decides for together, block by block, from the
/// full attention that all configurations share.
class ConfigurationReplay {
 public:
  virtual ~ConfigurationReplay() = default;

  /// Replays the steps of the units' current block.
  virtual void advance() = 0;

  /// Measures the losses of the block, after the outputs are computed.
  virtual void measure() = 0;

  /// The differences of the block per unit, after measure().
  virtual std::vector<const OutputDeltas*> deltas() const = 0;

  /// The outcome per unit, after the last block.
  virtual std::vector<Outcome> finish() = 0;
};

/// The replays of one configuration, in the order of the units: one per head, layer or model, as
/// the policy's scope says.
std::vector<std::unique_ptr<ConfigurationReplay>> replays_of(
    const Configuration& configuration, std::span<const std::unique_ptr<ReplayedUnit>> units,
    const ReplayOptions& options);

}  // namespace kvsim
