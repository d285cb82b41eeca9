#pragma once

#include "sim/results/table_schema.h"

namespace kvsim {

/// The table `closed_loop`: a row per text, policy and budget that ran inside the model itself.
/// `kvsim.evaluate` computes its numbers.
TableSchema closed_loop_schema();

}  // namespace kvsim
