#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/results/result.h"
#include "sim/results/run.h"

namespace SQLite {
class Database;
}

namespace kvsim {

/// The table `about`, which explains those of analyses, curves and closed loops.
TableSchema about_schema();

/// Whether SQL has the word, so that no table and no column can be called so.
bool is_sql_word(const std::string& name);

/// Rows for a table, one value per column of its schema.
struct TableRows {
  const TableSchema* schema;
  std::vector<std::vector<Value>> rows;
  /// Tables of parts of these rows, whose keys begin with theirs: their rows of the same key go.
  std::vector<const TableSchema*> parts = {};
};

/// Implements ResultStore::create(); `file` is for messages.
void create_table(SQLite::Database& connection, const TableSchema& schema, const std::string& file);

/// Inserts rows of a run, in place of those with the same key. Throws std::runtime_error for
/// infinity.
void insert_rows(SQLite::Database& connection, const TableRows& table, const Value& run_id);

/// The same of rows that belong to a row of `replay`, `row`; without a run they keep the one that
/// it names.
template <class Row>
void insert_rows(SQLite::Database& connection, const TableSchema& schema,
                 const std::vector<Row>& rows, const Run* run,
                 std::vector<Value> (*values_of)(const Row&)) {
  std::map<std::string, TableRows> of_run;
  for (const Row& row : rows) {
    TableRows& table = of_run[run != nullptr ? run->run_id : row.row.run_id];
    table.schema = &schema;
    table.rows.push_back(values_of(row));
  }
  for (const auto& [run_id, table] : of_run) insert_rows(connection, table, run_id);
}

}  // namespace kvsim
