#pragma once

#include <nanobind/nanobind.h>

#include <span>
#include <vector>

#include "sim/results/table_schema.h"

namespace kvsim::python {

/// A table as a dict from column to values: a list of str or None; a float64 array, NaN for NULL;
/// or a pair of an int64 array and, where the column may be NULL, a bool array that is true there,
/// else None. `python/kvsim/frames.py` makes a frame of it. With the GIL.
nanobind::dict columns_of(const TableSchema& schema, const std::vector<std::vector<Value>>& rows);

/// The same for rows of the table `replay`.
nanobind::dict columns_of(std::span<const Result> results);

}  // namespace kvsim::python
