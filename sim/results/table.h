#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "sim/results/result.h"

namespace kvsim {

/// Named columns and rows of values, to print.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<Value>> rows;
};

/// One row per result, with all columns of result_columns().
Table to_table(std::span<const Result> results);

/// RFC 4180, with a header line; numbers in the shortest form that reads back to the same value,
/// NULL as an empty field. A text that begins with one of = + - @, a tab or a carriage return gets
/// a ' before it, as spreadsheets would run it as a formula; so does one that begins with such
/// marks and then one of these, so that a reader who takes one ' away has all texts as they were.
/// Returns the columns with such texts.
std::vector<std::string> write_csv(std::ostream& out, const Table& table);

/// An array of objects, one per line. NULL and numbers that JSON cannot hold (NaN, infinity) become
/// null.
void write_json(std::ostream& out, const Table& table);

/// Aligned columns for people: text to the left, numbers to the right with four decimals, "-" for
/// NULL. All of it is printable(); the other two forms keep names and text as they are.
void write_aligned(std::ostream& out, const Table& table);

}  // namespace kvsim
