#pragma once

#include "sim/results/table_schema.h"

namespace kvsim {

/// The table `closed_loop`: a row per text, policy and budget that ran inside the model itself.
/// `kvsim.evaluate` computes its numbers.
TableSchema closed_loop_schema();

/// The table `closed_loop_kind`: such a row, per kind of the tokens that it predicts.
TableSchema closed_loop_kind_schema();

/// The table `closed_loop_step`: the measurements of such a row step by step.
TableSchema closed_loop_step_schema();

}  // namespace kvsim
