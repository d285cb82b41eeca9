#include "sim/results/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/base/errors.h"
#include "sim/base/nearest.h"
#include "sim/results/database.h"
#include "sim/results/integrity/value_ranges.h"
#include "sim/results/layer_error_table.h"
#include "sim/results/regret.h"
#include "sim/results/replay_table.h"
#include "sim/results/sampled_interval_table.h"

namespace kvsim {
namespace {

/// Whether the table has the column, which files of older programs lack.
bool has_labels(SQLite::Database& connection) {
  SQLite::Statement query(connection,
                          "SELECT 1 FROM pragma_table_info('replay') WHERE name = 'label'");
  return query.executeStep();
}

}  // namespace

ResultStore::ResultStore(const std::filesystem::path& file, Access access, const Scratch& scratch)
    : database_(std::make_unique<Database>(file, access == Access::write, scratch)) {
  if (access == Access::write) {
    database_->change([&](SQLite::Database& connection) {
      create_replay_table(connection, file.string());
      renew_view(connection, "regret", regret_view());
    });
  } else {
    database_->run([&](SQLite::Database& connection) {
      if (connection.tableExists("replay")) check_replay_key(connection, file.string());
    });
  }
}

ResultStore::ResultStore() : database_(std::make_unique<Database>()) {}

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

void ResultStore::begin_run(const RunLabels& labels) {
  run_ = std::make_unique<Run>(start_run(labels));
  database_->change([&](SQLite::Database& connection) { insert_run(connection, *run_); });
}

void ResultStore::finish_run() {
  if (run_ != nullptr) {
    database_->change([&](SQLite::Database& connection) { kvsim::finish_run(connection, *run_); });
  }
  database_->publish();
}

std::filesystem::path ResultStore::keep() { return database_->keep(); }

std::string ResultStore::run_id() const { return run_ == nullptr ? "" : run_->run_id; }

int ResultStore::set_labels(const std::vector<Result>& results) {
  return database_->change([&](SQLite::Database& connection) {
    int changed = 0;
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
      changed += update.exec();
      update.reset();
    }
    return changed;
  });
}

void ResultStore::add(const std::vector<Result>& results,
                      const std::vector<CertificateRow>& certificates,
                      const std::vector<LayerErrorRow>& layer_errors,
                      const std::vector<SampledIntervalRow>& intervals) {
  database_->change([&](SQLite::Database& connection) {
    insert_results(connection, results, run_.get());
    insert_certificates(connection, results, certificates, run_.get());
    remove_outdated_layer_errors(connection, results);
    insert_layer_errors(connection, layer_errors, run_.get(), database_->file().string());
    insert_sampled_intervals(connection, intervals, run_.get(), database_->file().string());
    if (run_ != nullptr) {
      count_rows(connection, *run_, results.size() + layer_errors.size() + intervals.size());
    }
  });
  database_->committed();
}

std::optional<double> ResultStore::recall_bound(const Result& result) const {
  return database_->run([&](SQLite::Database& connection) -> std::optional<double> {
    if (!connection.tableExists("certificate")) return std::nullopt;
    SQLite::Statement query(
        connection, fmt::format("SELECT recall_bound FROM certificate WHERE {} AND policy = ? AND "
                                "budget = ?",
                                kOfUnit));
    bind_row(query, result);
    if (!query.executeStep() || query.getColumn(0).isNull()) return std::nullopt;
    const std::vector<ColumnShape> columns =
        columns_named(connection, "certificate", {"recall_bound"});
    ValueCheck(database_->file().string(), "certificate", columns)(read_values(query));
    return query.getColumn(0).getDouble();
  });
}

std::vector<Result> ResultStore::unit_results(const Result& key) const {
  return database_->run([&](SQLite::Database& connection) {
    SQLite::Statement query(connection, fmt::format("SELECT {} FROM replay WHERE {}",
                                                    readable_columns(connection), kOfUnit));
    bind_unit(query, key);
    return results_of(query, database_->file());
  });
}

std::map<std::pair<std::string, std::int64_t>, std::string> ResultStore::finished(
    const Result& key) const {
  return database_->run([&](SQLite::Database& connection) {
    SQLite::Statement query(
        connection,
        fmt::format("SELECT policy, budget, policy_code FROM replay WHERE {}", kOfUnit));
    bind_unit(query, key);
    std::map<std::pair<std::string, std::int64_t>, std::string> finished;
    while (query.executeStep()) {
      finished[{query.getColumn(0).getString(), query.getColumn(1).getInt64()}] =
          query.getColumn(2).getString();
    }
    return finished;
  });
}

std::map<std::pair<std::string, std::int64_t>, std::string> ResultStore::finished_layers(
    const Result& key) const {
  return database_->run(
      [&](SQLite::Database& connection) { return kvsim::finished_layers(connection, key); });
}

std::vector<Result> ResultStore::results(const std::string& trace_id, const std::string& mode,
                                         std::int64_t seed) const {
  return database_->run([&](SQLite::Database& connection) {
    SQLite::Statement query(
        connection,
        fmt::format(
            "SELECT {} FROM replay WHERE trace_id = ? AND mode = ? AND seed = ? ORDER BY {}",
            readable_columns(connection), column_names(kKeyColumns)));
    query.bind(1, trace_id);
    query.bind(2, mode);
    query.bind(3, seed);
    return results_of(query, database_->file());
  });
}

std::vector<SampledIntervalRow> ResultStore::sampled_intervals(const std::string& trace_id,
                                                               const std::string& mode,
                                                               std::int64_t seed) const {
  return database_->run([&](SQLite::Database& connection) {
    return sampled_intervals_of(connection, trace_id, mode, seed, database_->file().string());
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

std::vector<std::string> ResultStore::labels() const {
  return database_->run([&](SQLite::Database& connection) {
    std::vector<std::string> labels;
    if (!has_labels(connection)) return labels;
    SQLite::Statement query(
        connection, "SELECT DISTINCT label FROM replay WHERE label IS NOT NULL ORDER BY label");
    while (query.executeStep()) labels.push_back(query.getColumn(0).getString());
    return labels;
  });
}

std::vector<std::string> ResultStore::policies_labelled(const std::string& label) const {
  return database_->run([&](SQLite::Database& connection) {
    std::vector<std::string> policies;
    if (!has_labels(connection)) return policies;
    SQLite::Statement query(connection,
                            "SELECT DISTINCT policy FROM replay WHERE label = ? ORDER BY policy");
    query.bind(1, label);
    while (query.executeStep()) policies.push_back(query.getColumn(0).getString());
    return policies;
  });
}

std::vector<Result> ResultStore::policy_results(const std::string& policy) const {
  return database_->run([&](SQLite::Database& connection) {
    SQLite::Statement query(connection,
                            fmt::format("SELECT {} FROM replay WHERE policy = ? ORDER BY {}",
                                        readable_columns(connection), column_names(kKeyColumns)));
    query.bind(1, policy);
    return results_of(query, database_->file());
  });
}

std::vector<LayerErrorRow> ResultStore::policy_layer_errors(const std::string& policy) const {
  return database_->run([&](SQLite::Database& connection) {
    return layer_errors_of(connection, policy, database_->file().string());
  });
}

void ResultStore::create(const TableSchema& schema) {
  database_->change([&](SQLite::Database& connection) {
    create_table(connection, schema, database_->file().string());
  });
}

void ResultStore::replace(const std::vector<TableRows>& tables) {
  database_->change([&](SQLite::Database& connection) {
    std::size_t rows = 0;
    for (const TableRows& table : tables) {
      insert_rows(connection, table, run_ == nullptr ? std::monostate() : Value(run_->run_id));
      rows += table.rows.size();
    }
    if (run_ != nullptr) count_rows(connection, *run_, rows);
  });
  database_->committed();
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
    const ValueCheck check(database_->file().string(), name, columns_of(connection, name));
    while (query.executeStep()) check(table.rows.emplace_back(read_values(query)));
    return table;
  });
}

}  // namespace kvsim
