#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim/core/memory.h"
#include "sim/core/replay.h"

namespace kvsim {

/// Configurations of one unit.
struct UnitReplays {
  const Unit* unit;
  std::span<const Configuration> configurations;
};

/// What a device replays by itself, many units at a time.
class DeviceReplays {
 public:
  virtual ~DeviceReplays() = default;

  /// Whether it can replay policies of these rules, against the full attention.
  virtual bool can_replay(const Rules& rules) const = 0;

  /// How many units of this shape, with a replay by each of the rules that it can replay, to hand
  /// over at once if so many threads do: enough to keep the device busy, as far as it has room.
  virtual std::size_t units_at_once(const ReplayShape& shape, std::span<const Rules> rules,
                                    int threads) const = 0;

  /// Outcomes per unit and configuration, as replay() gives them, up to rounding. May be called by
  /// several threads at once. Throws Interrupted, and std::runtime_error if the device fails.
  virtual std::vector<std::vector<Outcome>> replay(std::span<const UnitReplays> units,
                                                   const ReplayOptions& options) const = 0;
};

}  // namespace kvsim
