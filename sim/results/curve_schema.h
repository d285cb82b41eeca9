#pragma once

#include "sim/results/column.h"

namespace kvsim {

/// The table `curve`: a row per unit, policy and budget, all budgets from one pass.
TableSchema curve_schema();

}  // namespace kvsim
