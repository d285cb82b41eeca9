#pragma once

#include <nanobind/nanobind.h>

#include <span>
#include <vector>

#include "sim/results/sinks/table_output.h"

namespace kvsim::python {

/// Tables as dicts from column to values: a list of str or None; a float64 array, NaN for NULL;
/// or a pair of an int64 array and, where the column may be NULL, a bool array that is true there,
/// else None. `python/kvsim/results/frames.py` makes frames of them. With the GIL.

/// A dict of what a row of the table `shows`, its `source` and the meaning of every column
/// (`about`).
nanobind::dict about(const TableSchema& schema);

/// (columns, about): the rows of the schema's table, ordered by key, and about() of it. Every row
/// ends in its run_id.
nanobind::tuple table_of(const TableSchema& schema, std::vector<std::vector<Value>> rows);

/// The same of each of the tables, whose rows it takes, by the name of the table.
nanobind::dict tables_of(TableOutput& tables);

/// The columns of rows of the table `replay`.
nanobind::dict columns_of(std::span<const Result> results);

}  // namespace kvsim::python
