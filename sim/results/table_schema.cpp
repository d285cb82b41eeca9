#include "sim/results/table_schema.h"

#include <fmt/format.h>

#include "sim/results/database.h"
#include "traces/hdf5/errors.h"

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

std::string create_statement(const TableSchema& schema) {
  std::string columns;
  std::vector<std::string> keys;
  for (const ColumnSchema& column : schema.columns) {
    columns += fmt::format("{} {}{}, ", column.name, type_name(column.type),
                           column.is_key ? " NOT NULL" : "");
    if (column.is_key) keys.push_back(column.name);
  }
  return fmt::format("CREATE TABLE {} ({}PRIMARY KEY ({})) WITHOUT ROWID", schema.name, columns,
                     fmt::join(keys, ", "));
}

// Writes the meaning of the table (under an empty column name) and of its columns to `about`.
void explain(SQLite::Database& connection, const TableSchema& schema) {
  connection.exec(
      "CREATE TABLE IF NOT EXISTS about (table_name TEXT NOT NULL, column_name TEXT NOT NULL, "
      "meaning TEXT NOT NULL, source TEXT NOT NULL, PRIMARY KEY (table_name, column_name)) "
      "WITHOUT ROWID");
  SQLite::Statement insert(connection, "INSERT OR REPLACE INTO about VALUES (?, ?, ?, ?)");
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

void create_table(SQLite::Database& connection, const TableSchema& schema,
                  const std::string& file) {
  const std::string wanted = create_statement(schema);
  SQLite::Statement made(connection, "SELECT sql FROM sqlite_schema WHERE name = ?");
  made.bind(1, schema.name);
  if (!made.executeStep()) {
    connection.exec(wanted);
  } else if (made.getColumn(0).getString() != wanted) {
    throw DataError(fmt::format(
        "{}: the table {} has other columns than those of this version; use a new result file",
        file, schema.name));
  }
  explain(connection, schema);
}

void insert_rows(SQLite::Database& connection, const TableRows& table) {
  std::vector<std::string> places(table.schema->columns.size(), "?");
  SQLite::Statement insert(connection, fmt::format("INSERT OR REPLACE INTO {} VALUES ({})",
                                                   table.schema->name, fmt::join(places, ", ")));
  for (const std::vector<Value>& row : table.rows) {
    int index = 1;
    for (const Value& value : row) bind_value(insert, index++, value);
    insert.exec();
    insert.reset();
  }
}

}  // namespace kvsim
