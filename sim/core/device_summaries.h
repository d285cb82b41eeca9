#pragma once

#include <cstdint>
#include <vector>

#include "sim/core/pivotal.h"
#include "traces/unit.h"

namespace kvsim {

/// The full attention of a unit, mean over its query heads, and what of it is still to come; rows
/// t = 0 .. n - 1 of t + 1 numbers, one behind the other.
struct FutureSums {
  std::vector<float> attention;  ///< a[t,j]
  std::vector<float> remaining;  ///< the sum of a[s,j] over the measured steps s after t
};

/// What a device finds out about the full attention of a unit without handing it over. May be
/// called by several threads at once. Throws std::runtime_error if the device fails.
class DeviceSummaries {
 public:
  virtual ~DeviceSummaries() = default;

  /// Per query head: how many visible entries are below `threshold` times the largest of their row.
  virtual std::vector<std::int64_t> count_small(const Unit& unit, double threshold) const = 0;

  /// Per query head and token.
  virtual std::vector<std::vector<PivotalSteps>> pivotal_steps(
      const Unit& unit, const PivotalThreshold& threshold) const = 0;

  /// Steps from `first_measured` on are measured.
  virtual FutureSums future_sums(const Unit& unit, int first_measured) const = 0;
};

}  // namespace kvsim
