#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "sim/core/result.h"

namespace kvsim {

/// Named columns and rows of values, on their way to a printer.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<Value>> rows;
};

/// All columns of the results.
Table to_table(std::span<const Result> results);

/// RFC 4180, with a header line; numbers in the shortest form that reads back to the same value,
/// what does not apply as an empty field.
void write_csv(std::ostream& out, const Table& table);

/// An array of objects, one per line. Numbers that JSON cannot hold (NaN, infinity) and what does
/// not apply become null.
void write_json(std::ostream& out, const Table& table);

/// Columns lined up for reading: text to the left, numbers to the right with four decimals, "-"
/// for what does not apply.
void write_aligned(std::ostream& out, const Table& table);

}  // namespace kvsim
