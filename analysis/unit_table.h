#pragma once

#include "sim/core/table_schema.h"
#include "traces/trace.h"

namespace kvsim {

/// The table `unit`: the shape of every unit that was analysed, to which the tables of analyses
/// refer by trace_id, sequence, layer and kv_head.
TableSchema unit_schema();

/// Its row.
std::vector<Value> unit_row(const Trace& trace, const Unit& unit);

}  // namespace kvsim
