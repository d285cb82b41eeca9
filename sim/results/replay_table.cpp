#include "sim/results/replay_table.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "sim/base/errors.h"
#include "sim/protocol/protocol.h"
#include "sim/results/integrity/kept_digests.h"
#include "sim/results/integrity/value_ranges.h"
#include "sim/results/table_schema.h"

namespace kvsim {
namespace {

std::set<std::string> stored_names(SQLite::Database& connection) {
  std::set<std::string> names;
  for (const ColumnShape& column : columns_of(connection, "replay")) names.insert(column.name);
  return names;
}

std::vector<Value> certificate_values(const CertificateRow& certificate) {
  std::vector<Value> values;
  for (const Column& column : result_columns().first(kKeyColumns)) {
    values.push_back(column.get(certificate.row));
  }
  const Proof& proof = certificate.proof;
  values.push_back(value_of(certificate.row.attention_recall));
  values.push_back(value_of(proof.recall_bound));
  for (const double number : {proof.loss, proof.loss_bound, proof.loss - proof.loss_bound}) {
    values.emplace_back(number);
  }
  return values;
}

/// The value of a column. Throws for infinity, which no reader takes, and for NaN: SQLite would
/// store NULL, which means "does not apply".
Value number_or_text(const Column& column, const Result& result) {
  Value value = column.get(result);
  const auto* number = std::get_if<double>(&value);
  if (number != nullptr && !std::isfinite(*number)) {
    throw std::runtime_error(fmt::format(
        "{} layer {} KV head {}, {} at budget {}: expected a number as {}, found {}; please "
        "report this, with the trace",
        result.sequence, result.layer, result.kv_head, result.policy, result.budget, column.name,
        std::isnan(*number) ? "NaN" : "infinity"));
  }
  return value;
}

/// Throws DataError for a row without recall, unless nothing was measured in its mode: tables of
/// means count on it.
void check_is_measured(const Result& row, const std::filesystem::path& file) {
  if (row.attention_recall || !Protocol::of_name(row.mode).measures()) return;
  throw DataError(fmt::format(
      "{}: table replay, {} layer {} KV head {}, {} at budget {}, mode {}: attention_recall: "
      "expected a number, found NULL; the file is damaged or was changed: restore it, or make its "
      "rows again in a new file",
      file.string(), row.sequence, row.layer, row.kv_head, row.policy, row.budget, row.mode));
}

}  // namespace

TableSchema certificate_schema() {
  using namespace ranges;
  TableSchema schema{"certificate", "an upper bound that an oracle proves", "", key_columns()};
  for (ColumnSchema column :
       {result_column("attention_recall").filled(),
        real_column("recall_bound",
                    "no policy's attention_recall exceeds it on this unit at this budget, 0..1; "
                    "NULL unless the cost is the attention lost, cost=mass,weight=uniform")
            .in(kShare),
        real_column("loss",
                    "of the oracle's schedule, in the units of its cost: mean over the steps that "
                    "count"),
        real_column("loss_bound", "no policy loses less on this unit at this budget"),
        real_column("gap", "loss - loss_bound")}) {
    schema.columns.push_back(std::move(column));
  }
  return schema;
}

void create_replay_table(SQLite::Database& connection, const std::string& file) {
  connection.exec(create_statement(replay_schema()));
  check_replay_key(connection, file);
  // Rows of an earlier version have no policy_code either, so a sweep makes them again.
  add_missing_columns(connection, "replay", shape_of(replay_schema()));
}

void check_replay_key(SQLite::Database& connection, const std::string& file) {
  std::vector<std::string> keys;
  for (const ColumnShape& column : columns_of(connection, "replay")) {
    if (column.key > 0) keys.push_back(column.name);
  }
  const std::string found = fmt::format("{}", fmt::join(keys, ", "));
  if (found == column_names(kKeyColumns)) return;
  throw DataError(
      fmt::format("{}: expected a result file (SQLite) whose table replay has the key ({}), found "
                  "the key ({}), which cannot become that; make the rows again in a new file",
                  file, column_names(kKeyColumns), found));
}

void create_certificate_table(SQLite::Database& connection) {
  connection.exec(create_statement(certificate_schema()));
  watch_rows(connection, "certificate");
  std::vector<std::string> names;
  for (const ColumnShape& column : columns_of(connection, "certificate")) {
    if (column.name == "gap") return;
    names.push_back(column.name);
  }
  connection.exec("ALTER TABLE certificate RENAME TO earlier_certificate");
  connection.exec(create_statement(certificate_schema()));
  connection.exec(fmt::format("INSERT INTO certificate ({0}) SELECT {0} FROM earlier_certificate",
                              fmt::join(names, ", ")));
  connection.exec("DROP TABLE earlier_certificate");
  watch_rows(connection, "certificate");
}

std::string column_names(std::size_t count) {
  std::vector<std::string> names;
  for (const Column& column : result_columns().first(count)) names.emplace_back(column.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string readable_columns(SQLite::Database& connection) {
  const std::set<std::string> there = stored_names(connection);
  std::vector<std::string> columns;
  for (const Column& column : result_columns()) {
    columns.emplace_back(there.contains(column.name) ? column.name : "NULL");
  }
  return fmt::format("{}", fmt::join(columns, ", "));
}

std::vector<Result> results_of(SQLite::Statement& query, const std::filesystem::path& file) {
  const ValueCheck check(file.string(), "replay", shape_of(replay_schema()));
  std::vector<Result> results;
  std::vector<Value> row(result_columns().size());
  while (query.executeStep()) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = read_value(query.getColumn(static_cast<int>(i)));
    }
    check(row);
    Result& result = results.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) {
      const Column& column = result_columns()[i];
      const bool is_null = std::holds_alternative<std::monostate>(row[i]);
      if (is_null && !column.can_be_null()) continue;  // the row is older than the column
      column.set(result, row[i]);
    }
    check_is_measured(result, file);
  }
  return results;
}

void bind_unit(SQLite::Statement& statement, const Result& key) {
  statement.bind(1, key.trace_id);
  statement.bind(2, key.sequence);
  statement.bind(3, key.layer);
  statement.bind(4, key.kv_head);
  statement.bind(5, key.mode);
  statement.bind(6, key.seed);
}

void bind_row(SQLite::Statement& statement, const Result& key) {
  bind_unit(statement, key);
  statement.bind(7, key.policy);
  statement.bind(8, key.budget);
}

void insert_results(SQLite::Database& connection, const std::vector<Result>& results,
                    const Run* run) {
  std::vector<std::string> places(result_columns().size(), "?");
  std::vector<std::string> changes;
  for (const Column& column : result_columns().subspan(kKeyColumns)) {
    const bool is_label = column.name == std::string_view("label");
    const std::string value = is_label ? "coalesce(excluded.label, replay.label)"
                                       : fmt::format("excluded.{}", column.name);
    changes.push_back(fmt::format("{} = {}", column.name, value));
  }
  SQLite::Statement insert(
      connection,
      fmt::format("INSERT INTO replay ({}) VALUES ({}) ON CONFLICT ({}) DO UPDATE SET {}",
                  column_names(result_columns().size()), fmt::join(places, ", "),
                  column_names(kKeyColumns), fmt::join(changes, ", ")));
  for (Result result : results) {
    if (run != nullptr) result.run_id = run->run_id;
    int index = 1;
    for (const Column& column : result_columns()) {
      bind_value(insert, index++, number_or_text(column, result));
    }
    insert.exec();
    insert.reset();
  }
}

void insert_certificates(SQLite::Database& connection, const std::vector<Result>& results,
                         const std::vector<CertificateRow>& certificates, const Run* run) {
  if (!certificates.empty()) create_certificate_table(connection);
  if (!connection.tableExists("certificate")) return;
  SQLite::Statement remove(
      connection,
      fmt::format("DELETE FROM certificate WHERE {} AND policy = ? AND budget = ?", kOfUnit));
  for (const Result& result : results) {
    bind_row(remove, result);
    remove.exec();
    remove.reset();
  }
  insert_rows(connection, certificate_schema(), certificates, run, certificate_values);
}

}  // namespace kvsim
