#include "sim/results/table_schema.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <cmath>

#include "sim/base/errors.h"
#include "sim/results/database.h"
#include "sim/results/integrity/kept_digests.h"

namespace kvsim {
namespace {

// Rows of an earlier version have no label, and do not say which code and run they come from.
void add_newer_columns(SQLite::Database& connection, const TableSchema& schema) {
  std::vector<ColumnShape> columns = shape_of(schema);
  std::erase_if(columns, [](const ColumnShape& column) {
    return column.name != "label" && column.name != "policy_code" && column.name != "run_id";
  });
  add_missing_columns(connection, schema.name, columns);
}

// Writes the meaning of the table (under an empty column name) and of its columns to `about`.
void explain(SQLite::Database& connection, const TableSchema& schema) {
  connection.exec(create_statement(about_schema()));
  watch_rows(connection, "about");
  SQLite::Statement insert(
      connection,
      "INSERT INTO about VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET meaning = excluded.meaning, "
      "source = excluded.source WHERE (meaning, source) <> (excluded.meaning, excluded.source)");
  const auto note = [&](const std::string& column, const std::string& meaning) {
    insert.bind(1, schema.name);
    insert.bind(2, column);
    insert.bind(3, meaning);
    insert.bind(4, schema.source);
    insert.exec();
    insert.reset();
  };
  note("", schema.shows);
  for (const ColumnSchema& column : schema.stored_columns()) note(column.name, column.meaning);
}

/// Whether the table has all columns of the schema, in its order.
bool has_columns_of(SQLite::Database& connection, const TableSchema& schema) {
  return std::ranges::equal(columns_of(connection, schema.name), shape_of(schema),
                            [](const ColumnShape& made, const ColumnShape& declared) {
                              return made.name == declared.name && made.type == declared.type &&
                                     (made.key > 0) == (declared.key > 0);
                            });
}

// Removes the rows of `part` of the same key.
void remove_parts(SQLite::Database& connection, const TableRows& table, const TableSchema& part) {
  if (!connection.tableExists(part.name)) return;
  std::vector<std::string> conditions;
  for (const ColumnSchema& column : table.schema->columns) {
    if (column.is_key) conditions.push_back(sql_name(column.name) + " = ?");
  }
  SQLite::Statement remove(connection, fmt::format("DELETE FROM {} WHERE {}", part.name,
                                                   fmt::join(conditions, " AND ")));
  for (const std::vector<Value>& row : table.rows) {
    for (std::size_t i = 0; i < conditions.size(); ++i) {
      bind_value(remove, static_cast<int>(i) + 1, row[i]);
    }
    remove.exec();
    remove.reset();
  }
}

}  // namespace

TableSchema about_schema() {
  return {"about",
          "what a table, under an empty column_name, or one of its columns means",
          "",
          {text_column("table_name", "the table").key(),
           text_column("column_name", "its column; empty: the meaning of a row").key(),
           text_column("meaning", "definition, with unit and range").filled(),
           text_column("source", "of the definitions: paper and section").filled()},
          false};
}

bool is_sql_word(const std::string& name) {
  return sqlite3_keyword_check(name.c_str(), static_cast<int>(name.size())) != 0;
}

void create_table(SQLite::Database& connection, const TableSchema& schema,
                  const std::string& file) {
  if (columns_of(connection, schema.name).empty()) {
    connection.exec(create_statement(schema));
    watch_rows(connection, schema.name);
  } else {
    add_newer_columns(connection, schema);
    if (!has_columns_of(connection, schema)) {
      throw DataError(fmt::format(
          "{}: the table {} has other columns than those of this version; use a new result file",
          file, schema.name));
    }
  }
  explain(connection, schema);
}

void insert_rows(SQLite::Database& connection, const TableRows& table, const Value& run_id) {
  for (const TableSchema* part : table.parts) remove_parts(connection, table, *part);
  std::vector<std::string> names;
  for (const ColumnSchema& column : table.schema->stored_columns()) names.push_back(column.name);
  const std::vector<std::string> places(names.size(), "?");
  SQLite::Statement insert(
      connection, fmt::format("INSERT OR REPLACE INTO {} ({}) VALUES ({})", table.schema->name,
                              sql_names(names), fmt::join(places, ", ")));
  for (const std::vector<Value>& row : table.rows) {
    int index = 1;
    for (const Value& value : row) {
      if (const auto* number = std::get_if<double>(&value); number && std::isinf(*number)) {
        throw std::runtime_error(fmt::format(
            "table {}: expected a number as {}, found infinity; please report this, with "
            "the trace",
            table.schema->name, table.schema->columns[static_cast<std::size_t>(index) - 1].name));
      }
      bind_value(insert, index++, value);
    }
    if (table.schema->ends_in_run) bind_value(insert, index, run_id);
    insert.exec();
    insert.reset();
  }
}

}  // namespace kvsim
