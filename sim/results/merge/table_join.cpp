#include "sim/results/merge/table_join.h"

#include <fmt/format.h>

#include "sim/base/errors.h"

namespace kvsim {
namespace {

std::string is_key(const std::vector<std::string>& key) {
  std::vector<std::string> conditions;
  for (const std::string& name : key) conditions.push_back(sql_name(name) + " = ?");
  return fmt::format("{}", fmt::join(conditions, " AND "));
}

}  // namespace

TableJoin::TableJoin(const Database& merged, TableShape shape)
    : merged_(merged), shape_(std::move(shape)), rules_(shape_) {
  std::vector<std::string> names;
  for (const ColumnShape& column : shape_.columns) names.push_back(column.name);
  for (const std::string& name : shape_.key()) {
    key_.push_back(static_cast<std::size_t>(shape_.find(name) - shape_.columns.data()));
  }
  const std::vector<std::string> places(names.size(), "?");
  const std::string values = fmt::format("INTO {} ({}) VALUES ({})", sql_name(shape_.name),
                                         sql_names(names), fmt::join(places, ", "));
  merged_.run([&](SQLite::Database& connection) {
    const auto prepared = [&](const std::string& sql) {
      return std::make_unique<SQLite::Statement>(connection, sql);
    };
    insert_ = prepared(
        fmt::format("INSERT {} ON CONFLICT ({}) DO NOTHING", values, sql_names(shape_.key())));
    find_ = prepared(fmt::format("SELECT {} FROM {} WHERE {}", sql_names(names),
                                 sql_name(shape_.name), is_key(shape_.key())));
    replace_ = prepared("REPLACE " + values);
  });
}

std::string TableJoin::select_from(const TableShape& part) const {
  std::vector<std::string> columns;
  for (const ColumnShape& column : shape_.columns) {
    columns.push_back(part.find(column.name) != nullptr ? sql_name(column.name) : "NULL");
  }
  return fmt::format("SELECT {} FROM {} ORDER BY {}", fmt::join(columns, ", "),
                     sql_name(shape_.name), sql_names(shape_.key()));
}

/// Rows of an earlier version lack texts that are now there in each row.
void TableJoin::fill(std::vector<Value>& row, const std::string& part) const {
  for (std::size_t i = 0; i < row.size(); ++i) {
    const ColumnShape& column = shape_.columns[i];
    if (column.takes_null || !std::holds_alternative<std::monostate>(row[i])) continue;
    if (column.type != "TEXT") {
      throw DataError(
          fmt::format("{}: table {} takes no rows without {}, as {} has; merge into a "
                      "new file",
                      merged_.file().string(), shape_.name, column.name, part));
    }
    row[i] = std::string();
  }
}

bool TableJoin::add(std::vector<Value> row, std::strong_ordering later, const std::string& part) {
  fill(row, part);
  return merged_.run([&](SQLite::Database&) {
    bind_values(*insert_, row);
    const bool is_new = insert_->exec() > 0;
    if (!is_new) join(row, later);
    return is_new;
  });
}

void TableJoin::join(const std::vector<Value>& row, std::strong_ordering later) {
  std::vector<Value> key;
  for (const std::size_t place : key_) key.push_back(row[place]);
  bind_values(*find_, key);
  find_->executeStep();
  std::vector<Value> stored = read_row(*find_, merged_.file().string());
  find_->reset();
  if (const auto place = rules_.difference(stored, row)) {
    throw RowsDiffer{shape_.name,    shape_.key(), key, shape_.columns[*place].name,
                     stored[*place], row[*place]};
  }
  if (!rules_.join(stored, row, later)) return;
  bind_values(*replace_, stored);
  replace_->exec();
}

void bind_values(SQLite::Statement& statement, const std::vector<Value>& values) {
  statement.reset();
  int index = 1;
  for (const Value& value : values) bind_value(statement, index++, value);
}

std::vector<Value> read_row(SQLite::Statement& query, const std::string& file) {
  std::vector<Value> row;
  for (int i = 0; i < query.getColumnCount(); ++i) {
    const SQLite::Column value = query.getColumn(i);
    if (value.isBlob()) {
      throw DataError(fmt::format("{}: column {}: expected a number or a text, found a BLOB", file,
                                  value.getName()));
    }
    row.push_back(read_value(value));
  }
  return row;
}

std::string file_with(const std::vector<std::string>& files, const std::string& table,
                      const std::vector<std::string>& key_names, const std::vector<Value>& key) {
  for (const std::string& file : files) {
    const Database part(file, false);
    const bool is_there = part.run([&](SQLite::Database& connection) {
      if (!connection.tableExists(table)) return false;
      SQLite::Statement query(
          connection, fmt::format("SELECT 1 FROM {} WHERE {}", sql_name(table), is_key(key_names)));
      bind_values(query, key);
      return query.executeStep();
    });
    if (is_there) return file;
  }
  return "";
}

}  // namespace kvsim
