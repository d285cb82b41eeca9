#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/core/result.h"

namespace SQLite {
class Database;
}

namespace kvsim {

/// One column of a table that says what it holds.
struct ColumnSchema {
  enum class Type { integer, real, text };

  std::string name;
  Type type = Type::real;
  std::string meaning;  ///< definition, with unit and range
  bool is_key = false;  ///< part of the primary key; key columns come first

  /// The same as part of the key.
  ColumnSchema key() && {
    is_key = true;
    return std::move(*this);
  }
};

ColumnSchema integer_column(std::string name, std::string meaning);
ColumnSchema real_column(std::string name, std::string meaning);
ColumnSchema text_column(std::string name, std::string meaning);

/// A table of a result file beside `replay`.
struct TableSchema {
  std::string name;
  std::string shows;   ///< what a row is
  std::string source;  ///< where the definitions come from
  std::vector<ColumnSchema> columns;
};

/// Rows for a table, one value per column of its schema.
struct TableRows {
  const TableSchema* schema;
  std::vector<std::vector<Value>> rows;
};

/// For the store. `file` is for messages.
void create_table(SQLite::Database& connection, const TableSchema& schema, const std::string& file);
void insert_rows(SQLite::Database& connection, const TableRows& table);

}  // namespace kvsim
