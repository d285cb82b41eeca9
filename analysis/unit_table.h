#pragma once

#include "sim/results/table_schema.h"
#include "traces/trace.h"

namespace kvsim {

/// The table `unit`: the shape of every analysed unit. The other tables refer to its rows by
/// trace_id, sequence, layer and kv_head.
TableSchema unit_schema();

/// The row of a unit in that table.
std::vector<Value> unit_row(const Trace& trace, const Unit& unit);

}  // namespace kvsim
