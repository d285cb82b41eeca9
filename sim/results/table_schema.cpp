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

std::string type_name(ColumnSchema::Type type) {
  switch (type) {
    case ColumnSchema::Type::integer:
      return "INTEGER";
    case ColumnSchema::Type::real:
      return "REAL";
    case ColumnSchema::Type::text:
      return "TEXT";
  }
  return {};
}

const std::string kRunMeaning = "the row of the table run of the command that wrote this row";

std::vector<StoredColumn> stored_columns(const TableSchema& schema) {
  std::vector<StoredColumn> columns;
  for (const ColumnSchema& column : schema.columns) {
    columns.push_back({column.name, type_name(column.type), column.is_key});
  }
  columns.push_back({"run_id", "TEXT"});
  return columns;
}

std::string create_statement(const TableSchema& schema) {
  std::string columns;
  std::vector<std::string> keys;
  for (const StoredColumn& column : stored_columns(schema)) {
    columns += fmt::format("{} {}{}, ", column.name, column.type, column.is_key ? " NOT NULL" : "");
    if (column.is_key) keys.push_back(column.name);
  }
  return fmt::format("CREATE TABLE {} ({}PRIMARY KEY ({})) WITHOUT ROWID", schema.name, columns,
                     fmt::join(keys, ", "));
}

// Rows of an earlier version have no label, and do not say which code and run they come from.
void add_newer_columns(SQLite::Database& connection, const TableSchema& schema) {
  std::vector<std::pair<std::string, std::string>> newer;
  for (const StoredColumn& column : stored_columns(schema)) {
    if (column.name == "label" || column.name == "policy_code" || column.name == "run_id") {
      newer.emplace_back(column.name, column.type);
    }
  }
  add_missing_columns(connection, schema.name, newer);
}

// Writes the meaning of the table (under an empty column name) and of its columns to `about`.
void explain(SQLite::Database& connection, const TableSchema& schema) {
  connection.exec(
      "CREATE TABLE IF NOT EXISTS about (table_name TEXT NOT NULL, column_name TEXT NOT NULL, "
      "meaning TEXT NOT NULL, source TEXT NOT NULL, PRIMARY KEY (table_name, column_name)) "
      "WITHOUT ROWID");
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
  for (const ColumnSchema& column : schema.columns) note(column.name, column.meaning);
  note("run_id", kRunMeaning);
}

}  // namespace

ColumnSchema integer_column(std::string name, std::string meaning) {
  return {std::move(name), ColumnSchema::Type::integer, std::move(meaning)};
}

ColumnSchema real_column(std::string name, std::string meaning) {
  return {std::move(name), ColumnSchema::Type::real, std::move(meaning)};
}

ColumnSchema text_column(std::string name, std::string meaning) {
  return {std::move(name), ColumnSchema::Type::text, std::move(meaning)};
}

bool is_sql_word(const std::string& name) {
  return sqlite3_keyword_check(name.c_str(), static_cast<int>(name.size())) != 0;
}

void create_table(SQLite::Database& connection, const TableSchema& schema,
                  const std::string& file) {
  const std::vector<StoredColumn> made = columns_of(connection, schema.name);
  if (made.empty()) {
    connection.exec(create_statement(schema));
    watch_rows(connection, schema.name);
  } else {
    add_newer_columns(connection, schema);
    if (columns_of(connection, schema.name) != stored_columns(schema)) {
      throw DataError(fmt::format(
          "{}: the table {} has other columns than those of this version; use a new result file",
          file, schema.name));
    }
  }
  explain(connection, schema);
}

void insert_rows(SQLite::Database& connection, const TableRows& table, const Value& run_id) {
  std::vector<std::string> places(table.schema->columns.size() + 1, "?");
  SQLite::Statement insert(connection, fmt::format("INSERT OR REPLACE INTO {} VALUES ({})",
                                                   table.schema->name, fmt::join(places, ", ")));
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
    bind_value(insert, index, run_id);
    insert.exec();
    insert.reset();
  }
}

}  // namespace kvsim
