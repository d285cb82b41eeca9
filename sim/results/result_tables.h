#pragma once

#include <string_view>
#include <vector>

#include "sim/results/column.h"

namespace kvsim {

/// All tables of a result file whose columns this library declares; those of analyses come with
/// them.
const std::vector<TableSchema>& result_tables();

/// The views of them.
const std::vector<TableSchema>& result_views();

/// One of both; null if there is none of the name.
const TableSchema* find_table(std::string_view name);

}  // namespace kvsim
