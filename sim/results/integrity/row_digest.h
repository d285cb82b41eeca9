#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "sim/results/integrity/table_shape.h"

namespace kvsim {

/// Rows of one unit in one table. `sum` is that of the digests of the rows modulo 2^64, so that it
/// depends on no order, and a row is added and taken away without reading the others.
///
/// The digest of a row is the XXH3-64 of its values, in the order of the names of their columns and
/// without those that are NULL: a column that is added, NULL in all rows, changes no digest. A
/// value is the name, a zero byte, a letter and the number or text: "i" and int64, "r" and float64
/// (never -0), "t" or "b" (BLOB) and the length as int64 and the bytes; all little-endian.
struct UnitDigest {
  std::int64_t rows = 0;
  std::uint64_t sum = 0;

  bool operator==(const UnitDigest&) const = default;
};

/// By table and unit.
using Digests = std::map<std::pair<std::string, std::string>, UnitDigest>;

/// `sum` as the table `digest` has it: 16 hexadecimal digits.
std::string digest_text(std::uint64_t sum);

/// Gives the connection the SQL functions that the expressions below call.
void add_digest_functions(SQLite::Database& connection);
bool has_digest_functions(SQLite::Database& connection);

/// An SQL expression for the unit of a row of the table, a JSON object of those of its key columns
/// that name a model, a trace, a sequence, a layer or a head (a run, in the table `run`; a table,
/// in `about`). `row` stands before the name of a column, as in "NEW.".
std::string unit_expression(const TableShape& table, const std::string& row = "");

/// The same for the digest of the row, as a signed integer.
std::string digest_expression(const TableShape& table, const std::string& row = "");

/// A text as SQL takes it.
std::string sql_text(const std::string& text);

/// By unit, what the rows of the table give. The connection needs add_digest_functions(). `poll` is
/// called often and may throw.
std::map<std::string, UnitDigest> digests_of_rows(SQLite::Database& connection,
                                                  const TableShape& table,
                                                  const std::function<void()>& poll = {});

/// XXH3-64.
std::uint64_t digest_of(const std::string& bytes);

}  // namespace kvsim
