#include "sim/results/column.h"

#include <fmt/format.h>

#include "sim/results/integrity/table_shape.h"

namespace kvsim {
namespace {

/// Quoted where SQLite takes the word for no name. It takes most of its words, as `rows`.
std::string name_in_sql(const std::string& name) {
  return name == "select" ? sql_name(name) : name;
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

std::vector<ColumnSchema> TableSchema::stored_columns() const {
  std::vector<ColumnSchema> stored = columns;
  if (ends_in_run) {
    stored.push_back(
        text_column("run_id", "the row of the table run of the command that wrote this row"));
  }
  return stored;
}

std::string sql_type(ColumnSchema::Type type) {
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
  std::vector<std::string> lines;
  std::vector<std::string> keys;
  for (const ColumnSchema& column : schema.stored_columns()) {
    lines.push_back(fmt::format("{} {}{}", name_in_sql(column.name), sql_type(column.type),
                                column.can_be_null() ? "" : " NOT NULL"));
    if (column.is_key) keys.push_back(name_in_sql(column.name));
  }
  if (keys.size() == 1) {
    lines.front() += " PRIMARY KEY";
  } else {
    lines.push_back(fmt::format("PRIMARY KEY ({})", fmt::join(keys, ", ")));
  }
  return fmt::format("CREATE TABLE IF NOT EXISTS {} ({}) WITHOUT ROWID", schema.name,
                     fmt::join(lines, ", "));
}

}  // namespace kvsim
