#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/results/database.h"

namespace kvsim {

/// What the numbers of a column can be.
struct ValueRange {
  double least;
  double most;
  const char* words;  ///< as messages have it: "0 .. 1"
  /// A value may be outside by this much: means and shares are sums in single precision.
  double rounding = 0;
};

/// The range of a column, by its name: the tables of sweeps, curves and closed loops call the same
/// thing alike. In the tables of analyses only `budget` has one.
std::optional<ValueRange> range_of(const std::string& table, const std::string& column);

/// What is wrong with a value of a column of this SQL type ("INTEGER", "REAL", "TEXT"; "" of some
/// views: any), as in "expected 0 .. 1, found 2"; empty if nothing is. NULL means that a column
/// does not apply, and is right everywhere; SQLite keeps it out of keys.
std::string fault_of(const std::string& table, const std::string& column, const std::string& type,
                     const Value& value);

/// Looks at rows of a table as they are read.
class ValueCheck {
 public:
  /// `columns`: those of the rows, in order. `file` is for messages.
  ValueCheck(std::string file, std::string table, const std::vector<StoredColumn>& columns);

  /// Throws DataError for a value of another type than its column, for infinity, and for a number
  /// outside its range: it names the file, the table, the key, the column and the value.
  void operator()(std::span<const Value> row) const;

 private:
  std::string file_;
  std::string table_;
  std::vector<StoredColumn> columns_;
  std::vector<std::optional<ValueRange>> ranges_;
};

/// Some columns of a table or view, in this order; without a type where it lacks one.
std::vector<StoredColumn> columns_named(SQLite::Database& connection, const std::string& table,
                                        const std::vector<std::string>& names);

/// "0.5", "NULL", "'h2o'".
std::string shown(const Value& value);

}  // namespace kvsim
