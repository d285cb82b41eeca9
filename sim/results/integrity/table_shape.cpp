#include "sim/results/integrity/table_shape.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvsim {

std::vector<std::string> TableShape::key() const {
  std::vector<const ColumnShape*> found;
  for (const ColumnShape& column : columns) {
    if (column.key > 0) found.push_back(&column);
  }
  std::sort(found.begin(), found.end(),
            [](const ColumnShape* a, const ColumnShape* b) { return a->key < b->key; });
  std::vector<std::string> names;
  for (const ColumnShape* column : found) names.push_back(column->name);
  return names;
}

const ColumnShape* TableShape::find(const std::string& column) const {
  const auto found = std::find_if(columns.begin(), columns.end(),
                                  [&](const ColumnShape& each) { return each.name == column; });
  return found == columns.end() ? nullptr : &*found;
}

std::vector<ColumnShape> shape_of(const TableSchema& schema) {
  std::vector<ColumnShape> columns;
  for (const ColumnSchema& column : schema.stored_columns()) {
    const int key = column.is_key ? static_cast<int>(columns.size()) + 1 : 0;
    columns.push_back({column.name, sql_type(column.type), key, column.can_be_null()});
  }
  return columns;
}

std::vector<ColumnShape> columns_of(SQLite::Database& connection, const std::string& table) {
  SQLite::Statement query(connection,
                          "SELECT name, type, pk, \"notnull\" FROM pragma_table_info(?)");
  query.bind(1, table);
  std::vector<ColumnShape> columns;
  while (query.executeStep()) {
    columns.push_back({query.getColumn(0).getString(), query.getColumn(1).getString(),
                       query.getColumn(2).getInt(), query.getColumn(3).getInt() == 0});
  }
  return columns;
}

std::vector<ColumnShape> columns_named(SQLite::Database& connection, const std::string& table,
                                       const std::vector<std::string>& names) {
  const TableShape there{table, "", columns_of(connection, table)};
  std::vector<ColumnShape> columns;
  for (const std::string& name : names) {
    const ColumnShape* found = there.find(name);
    columns.push_back(found != nullptr ? *found : ColumnShape{name, ""});
  }
  return columns;
}

std::vector<TableShape> tables_of(SQLite::Database& connection) {
  std::vector<TableShape> tables;
  SQLite::Statement list(connection,
                         "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name <> "
                         "'digest' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name");
  while (list.executeStep()) {
    const std::string name = list.getColumn(0).getString();
    tables.push_back({name, list.getColumn(1).getString(), columns_of(connection, name)});
  }
  return tables;
}

std::string sql_name(const std::string& name) {
  std::string quoted = "\"";
  for (const char c : name) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string sql_names(const std::vector<std::string>& names) {
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back(sql_name(name));
  return fmt::format("{}", fmt::join(quoted, ", "));
}

}  // namespace kvsim
