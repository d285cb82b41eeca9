#include "sim/results/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "policies/parameters/errors.h"
#include "policies/parameters/nearest.h"
#include "sim/results/database.h"
#include "sim/results/regret.h"
#include "traces/hdf5/errors.h"

namespace kvsim {
namespace {

std::string column_names(std::size_t count) {
  std::vector<std::string> names;
  for (const Column& column : result_columns().first(count)) names.emplace_back(column.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string create_statement() {
  struct TypeName {
    const char* operator()(std::int64_t Result::*) const { return "INTEGER NOT NULL"; }
    const char* operator()(double Result::*) const { return "REAL NOT NULL"; }
    const char* operator()(std::string Result::*) const { return "TEXT NOT NULL"; }
    const char* operator()(std::optional<std::int64_t> Result::*) const { return "INTEGER"; }
    const char* operator()(std::optional<double> Result::*) const { return "REAL"; }
    const char* operator()(std::optional<std::string> Result::*) const { return "TEXT"; }
  };
  std::string columns;
  for (const Column& column : result_columns()) {
    columns += fmt::format("{} {}, ", column.name, std::visit(TypeName(), column.member));
  }
  return fmt::format("CREATE TABLE IF NOT EXISTS replay ({}PRIMARY KEY ({})) WITHOUT ROWID",
                     columns, column_names(kKeyColumns));
}

std::string create_certificate_statement() {
  return fmt::format(
      "CREATE TABLE IF NOT EXISTS certificate (trace_id TEXT NOT NULL, sequence TEXT NOT NULL, "
      "layer INTEGER NOT NULL, kv_head INTEGER NOT NULL, policy TEXT NOT NULL, budget INTEGER NOT "
      "NULL, mode TEXT NOT NULL, seed INTEGER NOT NULL, attention_recall REAL NOT NULL, "
      "recall_bound REAL NOT NULL, PRIMARY KEY ({})) WITHOUT ROWID",
      column_names(kKeyColumns));
}

/// Creates the view, or replaces the one of another version of the program.
void renew_view(SQLite::Database& connection) {
  SQLite::Transaction transaction(connection, SQLite::TransactionBehavior::IMMEDIATE);
  SQLite::Statement made(connection, "SELECT sql FROM sqlite_schema WHERE name = 'regret'");
  if (made.executeStep() && made.getColumn(0).getString() == regret_view()) return;
  made.reset();
  connection.exec("DROP VIEW IF EXISTS regret");
  connection.exec(regret_view());
  transaction.commit();
}

constexpr const char* kOfUnit =
    "trace_id = ? AND sequence = ? AND layer = ? AND kv_head = ? AND mode = ? AND seed = ?";

void bind_unit(SQLite::Statement& statement, const Result& key) {
  statement.bind(1, key.trace_id);
  statement.bind(2, key.sequence);
  statement.bind(3, key.layer);
  statement.bind(4, key.kv_head);
  statement.bind(5, key.mode);
  statement.bind(6, key.seed);
}

/// The value of a column. Throws for NaN: SQLite would store NULL, which means "does not apply".
Value number_or_text(const Column& column, const Result& result) {
  Value value = column.get(result);
  const auto* number = std::get_if<double>(&value);
  if (number != nullptr && std::isnan(*number)) {
    throw std::runtime_error(fmt::format(
        "{} layer {} KV head {}, {} at budget {}: expected a number as {}, found NaN; please "
        "report this, with the trace",
        result.sequence, result.layer, result.kv_head, result.policy, result.budget, column.name));
  }
  return value;
}

std::vector<Result> results_of(SQLite::Statement& query, const std::filesystem::path& file) {
  std::vector<Result> results;
  while (query.executeStep()) {
    Result& result = results.emplace_back();
    int index = 0;
    for (const Column& column : result_columns()) {
      const SQLite::Column value = query.getColumn(index++);
      try {
        column.set(result, read_value(value));
      } catch (const std::bad_variant_access&) {
        throw DataError(fmt::format("{}: table replay, column {}: '{}' is of another type",
                                    file.string(), column.name, value.getString()));
      }
    }
  }
  return results;
}

}  // namespace

ResultStore::ResultStore(const std::filesystem::path& file, Access access)
    : database_(std::make_unique<Database>(file, access == Access::write)) {
  database_->run([&](SQLite::Database& connection) {
    if (access == Access::write) {
      connection.exec(create_statement());
      renew_view(connection);
    }
    if (connection.tableExists("replay")) {
      SQLite::Statement(
          connection, fmt::format("SELECT {} FROM replay", column_names(result_columns().size())));
    }
  });
}

ResultStore::~ResultStore() = default;

void ResultStore::check_accepts_unmeasured() const {
  database_->run([&](SQLite::Database& connection) {
    SQLite::Statement columns(connection,
                              "SELECT name FROM pragma_table_info('replay') WHERE \"notnull\"");
    std::set<std::string> filled;
    while (columns.executeStep()) filled.insert(columns.getColumn(0).getString());
    for (const Column& column : result_columns()) {
      if (!column.can_be_null() || !filled.contains(column.name)) continue;
      throw DataError(fmt::format(
          "{}: expected a table replay that takes rows without {}, found one of an earlier version "
          "of kvsim; use a new result file",
          database_->file().string(), column.name));
    }
  });
}

void ResultStore::add(const std::vector<Result>& results) {
  database_->run([&](SQLite::Database& connection) {
    SQLite::Transaction transaction(connection);
    std::vector<std::string> places(result_columns().size(), "?");
    SQLite::Statement insert(
        connection, fmt::format("INSERT INTO replay ({}) VALUES ({}) ON CONFLICT DO NOTHING",
                                column_names(result_columns().size()), fmt::join(places, ", ")));
    for (const Result& result : results) {
      int index = 1;
      for (const Column& column : result_columns()) {
        bind_value(insert, index++, number_or_text(column, result));
      }
      insert.exec();
      insert.reset();
    }
    transaction.commit();
  });
}

void ResultStore::set_labels(const std::vector<Result>& results) {
  database_->run([&](SQLite::Database& connection) {
    SQLite::Transaction transaction(connection);
    SQLite::Statement update(
        connection, fmt::format("UPDATE replay SET label = ? WHERE ({}) = (?, ?, ?, ?, ?, ?, ?, ?) "
                                "AND label IS NOT ?",
                                column_names(kKeyColumns)));
    for (const Result& result : results) {
      if (!result.label) continue;
      int index = 1;
      update.bind(index++, *result.label);
      for (const Column& column : result_columns().first(kKeyColumns)) {
        bind_value(update, index++, column.get(result));
      }
      update.bind(index, *result.label);
      update.exec();
      update.reset();
    }
    transaction.commit();
  });
}

void ResultStore::add_certificate(const Result& result, double recall_bound) {
  database_->run([&](SQLite::Database& connection) {
    connection.exec(create_certificate_statement());
    SQLite::Statement insert(connection,
                             fmt::format("INSERT INTO certificate ({}, attention_recall, "
                                         "recall_bound) VALUES (?, ?, ?, ?, ?, ?, ?, ?, "
                                         "?, ?) ON CONFLICT DO NOTHING",
                                         column_names(kKeyColumns)));
    int index = 1;
    for (const Column& column : result_columns().first(kKeyColumns)) {
      bind_value(insert, index++, column.get(result));
    }
    bind_value(insert, index++, value_of(result.attention_recall));
    insert.bind(index, recall_bound);
    insert.exec();
  });
}

std::optional<double> ResultStore::recall_bound(const Result& result) const {
  return database_->run([&](SQLite::Database& connection) -> std::optional<double> {
    if (!connection.tableExists("certificate")) return std::nullopt;
    SQLite::Statement query(
        connection, fmt::format("SELECT recall_bound FROM certificate WHERE {} AND policy = ? AND "
                                "budget = ?",
                                kOfUnit));
    bind_unit(query, result);
    query.bind(7, result.policy);
    query.bind(8, result.budget);
    if (!query.executeStep()) return std::nullopt;
    return query.getColumn(0).getDouble();
  });
}

std::vector<Result> ResultStore::unit_results(const Result& key) const {
  return database_->run([&](SQLite::Database& connection) {
    SQLite::Statement query(connection,
                            fmt::format("SELECT {} FROM replay WHERE {}",
                                        column_names(result_columns().size()), kOfUnit));
    bind_unit(query, key);
    return results_of(query, database_->file());
  });
}

std::set<std::pair<std::string, std::int64_t>> ResultStore::finished(const Result& key) const {
  return database_->run([&](SQLite::Database& connection) {
    SQLite::Statement query(connection,
                            fmt::format("SELECT policy, budget FROM replay WHERE {}", kOfUnit));
    bind_unit(query, key);
    std::set<std::pair<std::string, std::int64_t>> finished;
    while (query.executeStep()) {
      finished.emplace(query.getColumn(0).getString(), query.getColumn(1).getInt64());
    }
    return finished;
  });
}

std::vector<Result> ResultStore::results(const std::string& trace_id, const std::string& mode,
                                         std::int64_t seed) const {
  return database_->run([&](SQLite::Database& connection) {
    SQLite::Statement query(
        connection,
        fmt::format(
            "SELECT {} FROM replay WHERE trace_id = ? AND mode = ? AND seed = ? ORDER BY {}",
            column_names(result_columns().size()), column_names(kKeyColumns)));
    query.bind(1, trace_id);
    query.bind(2, mode);
    query.bind(3, seed);
    return results_of(query, database_->file());
  });
}

std::vector<std::string> ResultStore::policies() const {
  return database_->run([&](SQLite::Database& connection) {
    std::vector<std::string> policies;
    if (!connection.tableExists("replay")) return policies;
    SQLite::Statement query(connection, "SELECT DISTINCT policy FROM replay ORDER BY policy");
    while (query.executeStep()) policies.push_back(query.getColumn(0).getString());
    return policies;
  });
}

std::vector<Result> ResultStore::policy_results(const std::string& policy) const {
  return database_->run([&](SQLite::Database& connection) {
    SQLite::Statement query(
        connection, fmt::format("SELECT {} FROM replay WHERE policy = ? ORDER BY {}",
                                column_names(result_columns().size()), column_names(kKeyColumns)));
    query.bind(1, policy);
    return results_of(query, database_->file());
  });
}

void ResultStore::create(const TableSchema& schema) {
  database_->run([&](SQLite::Database& connection) {
    SQLite::Transaction transaction(connection, SQLite::TransactionBehavior::IMMEDIATE);
    create_table(connection, schema, database_->file().string());
    transaction.commit();
  });
}

void ResultStore::replace(const std::vector<TableRows>& tables) {
  database_->run([&](SQLite::Database& connection) {
    SQLite::Transaction transaction(connection);
    for (const TableRows& table : tables) insert_rows(connection, table);
    transaction.commit();
  });
}

Table ResultStore::table(const std::string& name) const {
  return database_->run([&](SQLite::Database& connection) {
    std::vector<std::string> names;
    SQLite::Statement list(connection,
                           "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')");
    while (list.executeStep()) names.push_back(list.getColumn(0).getString());
    if (names.empty()) {
      throw DataError(fmt::format("{}: the result file has no table", database_->file().string()));
    }
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw UsageError(fmt::format("--table: {} has no table '{}'; did you mean '{}'?",
                                   database_->file().string(), name, nearest(name, names)));
    }
    // A table without rowid is stored, and scanned, in the order of its key.
    SQLite::Statement query(connection, fmt::format("SELECT * FROM \"{}\"", name));
    Table table;
    for (int i = 0; i < query.getColumnCount(); ++i)
      table.columns.emplace_back(query.getColumnName(i));
    while (query.executeStep()) {
      std::vector<Value>& row = table.rows.emplace_back();
      for (int i = 0; i < query.getColumnCount(); ++i)
        row.push_back(read_value(query.getColumn(i)));
    }
    return table;
  });
}

}  // namespace kvsim
