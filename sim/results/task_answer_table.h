#pragma once

#include "sim/results/table_schema.h"

namespace kvsim {

/// The table `task_answer`: a row per turn of a text, policy and budget that a running model was
/// asked with. `kvsim.tasks.evaluate` computes its numbers.
TableSchema task_answer_schema();

}  // namespace kvsim
