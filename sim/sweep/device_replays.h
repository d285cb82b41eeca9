#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim/replay/replay.h"
#include "sim/sweep/memory.h"

namespace kvsim {

/// One unit and the configurations to replay on it.
struct UnitReplays {
  const Unit* unit;
  std::span<const Configuration> configurations;
};

/// Replays on a device, many units at a time.
class DeviceReplays {
 public:
  virtual ~DeviceReplays() = default;

  /// Whether it can replay policies with these rules under a protocol.
  virtual bool can_replay(const Rules& rules, const Protocol& protocol) const = 0;

  /// How many units of this shape, each with one replay per entry of `rules`, one call of replay()
  /// should get when `threads` threads call it: enough to use the device fully, within its memory.
  virtual std::size_t units_at_once(const ReplayShape& shape, std::span<const Rules> rules,
                                    int threads) const = 0;

  /// Outcomes [unit][configuration], those of kvsim::replay() up to rounding. May be called by
  /// several threads at once. Throws Interrupted, and std::runtime_error if the device fails.
  virtual std::vector<std::vector<Outcome>> replay(std::span<const UnitReplays> units,
                                                   const ReplayOptions& options) const = 0;
};

}  // namespace kvsim
