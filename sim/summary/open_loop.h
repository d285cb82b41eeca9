#pragma once

namespace kvsim {

/// What numbers of a replay can and cannot rank; below every table that compares policies by them.
constexpr const char* kOpenLoop =
    "Open loop. At one budget no number of a replay reliably ranks policies as a running model "
    "does (sim/results/comparisons.md); python -m kvsim.evaluate runs the policies in yours.\n";

}  // namespace kvsim
