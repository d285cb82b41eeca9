#pragma once

namespace kvsim::cli {

/// What numbers of a replay can and cannot rank; below every table that compares policies by them.
constexpr const char* kOpenLoop =
    "Open loop: finds the budget and the disasters, hardly ranks serious policies at one budget; "
    "python -m kvsim.evaluate does.\n";

}  // namespace kvsim::cli
