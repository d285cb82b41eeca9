#pragma once

#include <compare>
#include <memory>
#include <string>
#include <vector>

#include "sim/results/database.h"
#include "sim/results/integrity/table_shape.h"
#include "sim/results/merge/row_rules.h"

namespace kvsim {

/// Two rows with the same key that are not one row.
struct RowsDiffer {
  std::string table;
  std::vector<std::string> key_names;
  std::vector<Value> key;
  std::string column;
  Value stored;
  Value given;
};

/// Adds rows to a table of the merged file. A call that fails has added nothing.
class TableJoin {
 public:
  /// `merged` has the table in this shape, and stays so.
  TableJoin(const Database& merged, TableShape shape);

  const TableShape& shape() const { return shape_; }

  /// The SQL that reads a part's rows for add(), in the order of the key.
  std::string select_from(const TableShape& part) const;

  /// Adds the row, or joins it with that of the same key (RowRules, also for `later`). Returns
  /// whether the key is new. Throws RowsDiffer; DataError if the table, of an earlier version,
  /// takes no NULL where the row has one. `part` is for messages.
  bool add(std::vector<Value> row, std::strong_ordering later, const std::string& part);

 private:
  void fill(std::vector<Value>& row, const std::string& part) const;
  void join(const std::vector<Value>& row, std::strong_ordering later);

  const Database& merged_;
  TableShape shape_;
  RowRules rules_;
  std::vector<std::size_t> key_;  ///< places of the columns of the key
  std::unique_ptr<SQLite::Statement> insert_;
  std::unique_ptr<SQLite::Statement> find_;
  std::unique_ptr<SQLite::Statement> replace_;
};

/// Binds values to the places of a statement, in order.
void bind_values(SQLite::Statement& statement, const std::vector<Value>& values);

/// The values of a row of a query. Throws DataError for a BLOB, which no table of ours has.
std::vector<Value> read_row(SQLite::Statement& query, const std::string& file);

/// The first of `files` that has the row with this key; empty if none has.
std::string file_with(const std::vector<std::string>& files, const std::string& table,
                      const std::vector<std::string>& key_names, const std::vector<Value>& key);

}  // namespace kvsim
