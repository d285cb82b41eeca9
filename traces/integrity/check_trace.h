#pragma once

#include <cstdint>
#include <functional>

#include "traces/trace.h"

namespace kvsim {

/// What check_trace() has read.
struct TraceCheck {
  int version = 0;            ///< of the format; below 2 there is nothing to check against
  std::int64_t datasets = 0;  ///< checked as a whole, or all heads of which are checked
  std::int64_t heads = 0;     ///< of these datasets; a list counts as one
};

/// Reads every dataset of the format, also those that no verb reads and heads of incomplete units,
/// and compares all digests. Opening the trace has checked its manifest. Throws DataError at the
/// first difference. `between` is called after every head and list, and may throw. Of a trace of
/// version 1 it reads nothing.
TraceCheck check_trace(
    const Trace& trace, const std::function<void()>& between = [] {});

/// Reads what verbs read of every unit, and matrices of layers, which checks that numbers are
/// finite: all that can be checked of a trace of version 1. Throws DataError. `between` may throw.
void read_every_unit(const Trace& trace, const std::function<void()>& between);

}  // namespace kvsim
