#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/results/database.h"

namespace kvsim {

/// Looks at rows of a table as they are read.
class ValueCheck {
 public:
  /// `columns`: those of the rows, in order. `file` is for messages.
  ValueCheck(std::string file, std::string table, const std::vector<ColumnShape>& columns);

  /// Throws DataError for a value of another type than its column, for infinity, and for a number
  /// outside its range: it names the file, the table, the key, the column and the value.
  void operator()(std::span<const Value> row) const;

 private:
  std::string file_;
  std::string table_;
  std::vector<ColumnShape> columns_;
  std::vector<ValueRange> ranges_;
};

/// "0.5", "NULL", "'h2o'".
std::string shown(const Value& value);

}  // namespace kvsim
