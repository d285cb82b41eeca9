#pragma once

#include <string>

#include "sim/results/local_disk/scratch.h"

namespace kvsim::python {

/// Where a result file is written while a function runs (Scratch::folder; empty: no choice). Tells
/// by a KvsimWarning, from any thread, with the GIL or without.
Scratch scratch_in(const std::string& folder);

}  // namespace kvsim::python
