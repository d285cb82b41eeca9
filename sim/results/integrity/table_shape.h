#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <string>
#include <vector>

#include "sim/results/column.h"

namespace kvsim {

/// A column of a table as a file has it.
struct ColumnShape {
  std::string name;
  std::string type;
  int key = 0;  ///< its place in the primary key, from 1; 0: none
  bool takes_null = true;
};

/// A table as a file has it.
struct TableShape {
  std::string name;
  std::string sql;  ///< that creates it
  std::vector<ColumnShape> columns;

  /// The names of the columns of the primary key, in the order of the key.
  std::vector<std::string> key() const;
  /// Null if there is no such column.
  const ColumnShape* find(const std::string& column) const;
};

/// The columns of a table that is made from the schema.
std::vector<ColumnShape> shape_of(const TableSchema& schema);

/// The columns of a table or view, in order; empty if there is none of the name.
std::vector<ColumnShape> columns_of(SQLite::Database& connection, const std::string& table);

/// Some of them, in this order; without a type where the table lacks one.
std::vector<ColumnShape> columns_named(SQLite::Database& connection, const std::string& table,
                                       const std::vector<std::string>& names);

/// The tables of a file, without views, SQLite's own and `digest`, in the order of their names.
std::vector<TableShape> tables_of(SQLite::Database& connection);

/// A name as SQL takes it.
std::string sql_name(const std::string& name);

/// Names as SQL takes them, separated by commas.
std::string sql_names(const std::vector<std::string>& names);

}  // namespace kvsim
