#pragma once

#include <memory>
#include <span>

#include "sim/core/replay.h"
#include "sim/core/replayed_unit.h"

namespace kvsim {

/// One configuration on its way through the units it decides for, fed block by block with the
/// attention that it shares with the others.
class ConfigurationReplay {
 public:
  virtual ~ConfigurationReplay() = default;

  /// The block of steps that the units hold now.
  virtual void advance() = 0;

  /// What it lost in the block, once the outputs are known.
  virtual void measure() {}

  /// After the last block: one outcome per unit.
  virtual std::vector<Outcome> finish() = 0;
};

/// The replays of one configuration, each of the units that it decides for together: a head, a
/// layer or all. In the order of the units.
std::vector<std::unique_ptr<ConfigurationReplay>> replays_of(
    const Configuration& configuration, std::span<const std::unique_ptr<ReplayedUnit>> units,
    const ReplayOptions& options);

}  // namespace kvsim
