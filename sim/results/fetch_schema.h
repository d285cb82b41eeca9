#pragma once

#include "sim/results/column.h"

namespace kvsim {

/// The table `fetch`: a row per unit, selector, size of the device and replacement.
TableSchema fetch_schema();

}  // namespace kvsim
