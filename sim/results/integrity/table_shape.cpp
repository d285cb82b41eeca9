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

std::vector<TableShape> tables_of(SQLite::Database& connection) {
  std::vector<TableShape> tables;
  SQLite::Statement list(connection,
                         "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name <> "
                         "'digest' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name");
  SQLite::Statement columns(connection,
                            "SELECT name, type, pk, \"notnull\" FROM pragma_table_info(?)");
  while (list.executeStep()) {
    TableShape& table = tables.emplace_back();
    table.name = list.getColumn(0).getString();
    table.sql = list.getColumn(1).getString();
    columns.bind(1, table.name);
    while (columns.executeStep()) {
      table.columns.push_back({columns.getColumn(0).getString(), columns.getColumn(1).getString(),
                               columns.getColumn(2).getInt(), columns.getColumn(3).getInt() == 0});
    }
    columns.reset();
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
