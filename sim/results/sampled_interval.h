#pragma once

#include <string>

#include "sim/results/paired_bootstrap.h"
#include "sim/results/result.h"

namespace kvsim {

/// How sure a sample of steps makes one measured column of a row.
struct SampledInterval {
  std::string metric;                ///< the column
  std::optional<Interval> interval;  ///< none from a single step
};

/// A row of the table `sampled_interval`; `row` is that of the replay.
struct SampledIntervalRow {
  Result row;
  SampledInterval sampled;
};

}  // namespace kvsim
