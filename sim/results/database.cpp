#include "sim/results/database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>

#include "policies/parameters/errors.h"
#include "traces/hdf5/errors.h"

namespace kvsim {
namespace {

constexpr int kBusyMilliseconds = 60'000;  // another sweep may be committing to the same file

}  // namespace

Database::Database(std::filesystem::path file, bool writing) : file_(std::move(file)) {
  if (file_.empty()) throw UsageError("the result file needs a name");
  if (!writing && !std::filesystem::exists(file_)) {
    throw DataError(fmt::format("{}: there is no such result file", file_.string()));
  }
  try {
    // Readers open for writing too: they may have to roll back the transaction of a killed writer.
    const int flags = SQLite::OPEN_READWRITE | (writing ? SQLite::OPEN_CREATE : 0);
    connection_ = std::make_unique<SQLite::Database>(std::filesystem::absolute(file_), flags,
                                                     kBusyMilliseconds);
  } catch (const SQLite::Exception& error) {
    fail(error);
  }
}

Database::Database()
    : file_("results in memory"),
      connection_(std::make_unique<SQLite::Database>(
          ":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)) {}

void Database::fail(const SQLite::Exception& error) const {
  const std::string name = file_.string();
  const int code = error.getErrorCode();
  // All statements are valid for a result file, so SQLITE_ERROR means other tables or columns.
  if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT || code == SQLITE_ERROR) {
    throw DataError(
        fmt::format("{}: expected a result file (SQLite), found {}", name, error.what()));
  }
  throw std::runtime_error(fmt::format("{}: {}", name, error.what()));
}

std::vector<StoredColumn> columns_of(SQLite::Database& connection, const std::string& table) {
  SQLite::Statement query(connection, "SELECT name, type, pk > 0 FROM pragma_table_info(?)");
  query.bind(1, table);
  std::vector<StoredColumn> columns;
  while (query.executeStep()) {
    columns.push_back({query.getColumn(0).getString(), query.getColumn(1).getString(),
                       query.getColumn(2).getInt() != 0});
  }
  return columns;
}

void add_missing_columns(SQLite::Database& connection, const std::string& table,
                         const std::vector<std::pair<std::string, std::string>>& columns) {
  SQLite::Transaction transaction(connection, SQLite::TransactionBehavior::IMMEDIATE);
  const std::vector<StoredColumn> made = columns_of(connection, table);
  for (const auto& [name, type] : columns) {
    const auto is_there = [&](const StoredColumn& column) { return column.name == name; };
    if (std::any_of(made.begin(), made.end(), is_there)) continue;
    connection.exec(fmt::format("ALTER TABLE {} ADD COLUMN {} {}", table, name, type));
  }
  transaction.commit();
}

void renew_view(SQLite::Database& connection, const std::string& name, const std::string& sql) {
  SQLite::Statement made(connection, "SELECT sql FROM sqlite_schema WHERE name = ?");
  made.bind(1, name);
  if (made.executeStep() && made.getColumn(0).getString() == sql) return;
  made.reset();
  connection.exec("DROP VIEW IF EXISTS " + name);
  connection.exec(sql);
}

Value read_value(const SQLite::Column& column) {
  if (column.isInteger()) return std::int64_t{column.getInt64()};
  if (column.isFloat()) return column.getDouble();
  if (column.isNull()) return std::monostate();
  return column.getString();
}

void bind_value(SQLite::Statement& statement, int index, const Value& value) {
  struct Bind {
    SQLite::Statement& statement;
    int index;
    void operator()(std::int64_t number) const { statement.bind(index, number); }
    void operator()(double number) const { statement.bind(index, number); }
    void operator()(const std::string& text) const { statement.bind(index, text); }
    void operator()(std::monostate) const { statement.bind(index); }
  };
  std::visit(Bind{statement, index}, value);
}

}  // namespace kvsim
