#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "traces/trace.h"

namespace kvsim::faults {

/// A digest of all that a program can learn of a trace: its header, what is recorded, and every
/// number of every unit. Throws DataError as the trace does.
std::string numbers_of(const Trace& trace);

/// The bytes of a small synthetic trace: the smallest there is, or one with every kind of dataset.
std::string seed_trace(bool is_tiny);

}  // namespace kvsim::faults
