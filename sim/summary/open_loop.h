#pragma once

namespace kvsim {

/// What numbers of a replay can and cannot rank; below every table that compares policies by them.
constexpr const char* kOpenLoop =
    "Open loop: finds the budget and the disasters. At one budget recall and relative error hardly "
    "rank serious policies, projected error and predicted KL only while the damage is small; "
    "python -m kvsim.evaluate does.\n";

}  // namespace kvsim
