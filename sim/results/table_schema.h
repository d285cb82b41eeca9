#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/results/result.h"

namespace SQLite {
class Database;
}

namespace kvsim {

/// One column of a table that is explained in the table `about`.
struct ColumnSchema {
  enum class Type { integer, real, text };

  std::string name;
  Type type = Type::real;
  std::string meaning;  ///< definition, with unit and range
  bool is_key = false;  ///< part of the primary key; key columns come first

  /// The same column as part of the key.
  ColumnSchema key() && {
    is_key = true;
    return std::move(*this);
  }
};

ColumnSchema integer_column(std::string name, std::string meaning);
ColumnSchema real_column(std::string name, std::string meaning);
ColumnSchema text_column(std::string name, std::string meaning);

/// A table of a result file, other than `replay`, `certificate` and `run`. In the file it ends in
/// one more column: `run_id`, the run that wrote the row.
struct TableSchema {
  std::string name;
  std::string shows;   ///< the meaning of a row
  std::string source;  ///< of the definitions: paper and section
  std::vector<ColumnSchema> columns;
};

/// Whether SQL has the word, so that no table and no column can be called so.
bool is_sql_word(const std::string& name);

/// Rows for a table, one value per column of its schema.
struct TableRows {
  const TableSchema* schema;
  std::vector<std::vector<Value>> rows;
};

/// Implements ResultStore::create(); `file` is for messages.
void create_table(SQLite::Database& connection, const TableSchema& schema, const std::string& file);

/// Inserts rows of a run, in place of those with the same key. Throws std::runtime_error for
/// infinity.
void insert_rows(SQLite::Database& connection, const TableRows& table, const Value& run_id);

}  // namespace kvsim
