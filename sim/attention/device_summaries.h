#pragma once

#include <cstdint>
#include <vector>

#include "sim/attention/pivotal.h"
#include "traces/unit.h"

namespace kvsim {

/// The full attention of a unit, averaged over its query heads, and its sum over later steps.
/// Triangular: rows t = 0 .. n - 1 of t + 1 numbers, concatenated.
struct FutureSums {
  std::vector<float> attention;  ///< a[t,j]
  std::vector<float> remaining;  ///< the sum of a[s,j] over the measured steps s > t
};

/// Summaries of the full attention of a unit that a device computes without copying the attention
/// to the host. Thread-safe. Throws std::runtime_error if the device fails.
class DeviceSummaries {
 public:
  virtual ~DeviceSummaries() = default;

  /// Per query head: the number of visible entries below `threshold` times the largest of their
  /// row.
  virtual std::vector<std::int64_t> count_small(const Unit& unit, double threshold) const = 0;

  /// [query heads][tokens].
  virtual std::vector<std::vector<PivotalSteps>> pivotal_steps(
      const Unit& unit, const PivotalThreshold& threshold) const = 0;

  /// Steps from `first_measured` on are measured.
  virtual FutureSums future_sums(const Unit& unit, int first_measured) const = 0;
};

}  // namespace kvsim
