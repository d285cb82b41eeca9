#include "sim/results/merge/merge.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>
#include <set>

#include "sim/base/errors.h"
#include "sim/results/database.h"
#include "sim/results/integrity/check_results.h"
#include "sim/results/integrity/row_digest.h"
#include "sim/results/integrity/value_ranges.h"
#include "sim/results/layer_error_table.h"
#include "sim/results/merge/joined_tables.h"
#include "sim/results/merge/missing_shards.h"
#include "sim/results/merge/policy_codes.h"
#include "sim/results/merge/shared_units.h"
#include "sim/results/merge/table_join.h"
#include "sim/results/regret.h"

namespace kvsim {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRowsPerProgress = 4096;

/// The parts, each once and without the output.
std::vector<std::string> distinct(const std::vector<fs::path>& parts, const fs::path& output) {
  std::set<fs::path> seen;
  std::vector<std::string> files;
  for (const fs::path& part : parts) {
    std::error_code unknown;  // reading the part will say what is wrong
    const bool is_output = fs::equivalent(part, output, unknown);
    const fs::path resolved = fs::weakly_canonical(part, unknown);
    if (is_output || !seen.insert(unknown ? part : resolved).second) continue;
    files.push_back(part.string());
  }
  return files;
}

std::string last_run(SQLite::Database& connection) {
  if (!connection.tableExists("run")) return "";
  SQLite::Statement query(connection, "SELECT max(run_id) FROM run");
  return query.executeStep() ? query.getColumn(0).getString() : "";
}

/// Places of columns that the rows of some tables have; none elsewhere.
struct Places {
  explicit Places(const TableShape& table)
      : code(find(table, "policy_code")),
        described(table.name == "about" ? find(table, "table_name") : std::nullopt) {
    if (!code) return;
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      if (table.columns[i].name.ends_with("policy")) policies.push_back(i);
    }
  }

  static std::optional<std::size_t> find(const TableShape& table, const char* name) {
    const ColumnShape* column = table.find(name);
    if (column == nullptr) return std::nullopt;
    return static_cast<std::size_t>(column - table.columns.data());
  }

  std::vector<std::size_t> policies;
  std::optional<std::size_t> code;
  std::optional<std::size_t> described;
};

std::string text_of(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? "" : *text;
}

/// One merge, in a transaction on the output.
class Merge {
 public:
  Merge(const fs::path& output, const Scratch& scratch, JoinedTables tables)
      : merged_(output, true, scratch), tables_(std::move(tables)) {}

  Merged run(const std::vector<std::string>& files, const MergeProgress& progress) {
    progress_ = progress;
    merged_.run([](SQLite::Database& connection) {
      connection.exec("PRAGMA cache_size = -65536");  // KiB
    });
    Merged merged = merged_.change([&](SQLite::Database& connection) {
      take_output(connection);
      for (const std::string& file : files) add(file);
      return finish(connection);
    });
    merged_.publish();
    return merged;
  }

 private:
  /// What the output has already.
  void take_output(SQLite::Database& connection) {
    const std::string file = merged_.file().string();
    const std::vector<TableShape> before = tables_of(connection);
    if (!before.empty()) tables_.add(file, before);
    create_tables(connection);
    const std::string run = last_run(connection);
    for (const TableShape& table : tables_of(connection)) {
      const Places places(table);
      if (!places.policies.empty()) take_codes(connection, table, places);
      if (places.described) {
        SQLite::Statement names(connection, "SELECT DISTINCT table_name FROM about");
        while (names.executeStep()) described_by_[names.getColumn(0).getString()] = run;
      }
    }
  }

  void take_codes(SQLite::Database& connection, const TableShape& table, const Places& places) {
    std::vector<std::string> columns;
    for (const std::size_t i : places.policies) columns.push_back(sql_name(table.columns[i].name));
    SQLite::Statement query(
        connection, fmt::format("SELECT DISTINCT {}, policy_code FROM {}", fmt::join(columns, ", "),
                                sql_name(table.name)));
    const int last = static_cast<int>(columns.size());
    while (query.executeStep()) {
      std::vector<std::string> policies;
      for (int i = 0; i < last; ++i) policies.push_back(query.getColumn(i).getString());
      codes_.add(policies, query.getColumn(last).getString(), merged_.file().string());
    }
  }

  void create_tables(SQLite::Database& connection) {
    tables_.create(connection);
    for (TableShape& table : tables_of(connection)) {
      if (table.name == "replay") units_.emplace(merged_, table);
      const std::string name = table.name;
      joins_[name] = std::make_unique<TableJoin>(merged_, std::move(table));
    }
  }

  void add(const std::string& file) {
    tell();
    const Database part(file, false);
    part.run([&](SQLite::Database& connection) {
      const SQLite::Transaction all_at_one_time(connection);
      const std::vector<TableShape> tables = tables_of(connection);
      if (tables_.add(file, tables)) {
        throw DataError(
            fmt::format("{}: it has got another table since the merge began; merge again", file));
      }
      add_digest_functions(connection);
      check_digests(connection, file, [this] { tell(); });
      units_->next_file();
      const std::string run = last_run(connection);
      for (const TableShape& table : tables) add(table, connection, file, run);
    });
    files_.push_back(file);
  }

  void add(const TableShape& table, SQLite::Database& connection, const std::string& file,
           const std::string& run) {
    TableJoin& join = *joins_.at(table.name);
    const Places places(join.shape());
    std::vector<std::string> names;
    for (const ColumnShape& column : join.shape().columns) names.push_back(column.name);
    const ValueCheck check(file, table.name, columns_named(connection, table.name, names));
    SQLite::Statement query(connection, join.select_from(table));
    std::size_t count = 0;
    std::set<std::string> described;
    while (query.executeStep()) {
      std::vector<Value> row = read_row(query, file);
      check(row);
      if (!places.policies.empty()) {
        std::vector<std::string> policies;
        for (const std::size_t i : places.policies) policies.push_back(text_of(row[i]));
        codes_.add(policies, text_of(row[*places.code]), file);
      }
      std::strong_ordering later = std::strong_ordering::equal;
      if (places.described) {
        const std::string name = text_of(row[*places.described]);
        described.insert(name);
        later = run <=> described_by_[name];
      }
      const bool is_replay = table.name == "replay";
      if (is_replay) units_->before(row);
      if (add(join, std::move(row), later, file)) {
        ++added_[table.name];
        if (is_replay) units_->added();
      }
      if (++count % kRowsPerProgress == 0) tell();
    }
    for (const std::string& name : described) {
      described_by_[name] = std::max(described_by_[name], run);
    }
  }

  bool add(TableJoin& join, std::vector<Value> row, std::strong_ordering later,
           const std::string& file) {
    try {
      return join.add(std::move(row), later, file);
    } catch (const RowsDiffer& found) {
      std::string other = file_with(files_, found.table, found.key_names, found.key);
      if (other.empty()) other = merged_.file().string();
      std::vector<std::string> key;
      for (std::size_t i = 0; i < found.key.size(); ++i) {
        key.push_back(fmt::format("{}={}", found.key_names[i], shown(found.key[i])));
      }
      throw DataError(fmt::format(
          "table {}, {}: {} is {} in {} and {} in {}; rows of the same key must be equal: make one "
          "of them again, or leave one of the files out",
          found.table, fmt::join(key, ", "), found.column, shown(found.stored), other,
          shown(found.given), file));
    }
  }

  Merged finish(SQLite::Database& connection) {
    units_->check(files_);
    renew_view(connection, "regret", regret_view());
    if (connection.tableExists("layer_error")) {
      renew_view(connection, "predicted_kl", predicted_kl_view());
    }
    Merged merged;
    merged.parts = files_.size();
    for (const auto& [name, join] : joins_) {
      SQLite::Statement count(connection, "SELECT count(*) FROM " + sql_name(name));
      count.executeStep();
      merged.tables.push_back(
          {name, static_cast<std::size_t>(count.getColumn(0).getInt64()), added_[name]});
    }
    if (joins_.contains("run")) merged.missing = missing_shards(connection);
    tell();
    return merged;
  }

  void tell() const {
    if (progress_) progress_(files_.size());
  }

  Database merged_;
  JoinedTables tables_;
  PolicyCodes codes_;
  std::optional<SharedUnits> units_;
  std::map<std::string, std::unique_ptr<TableJoin>> joins_;
  std::map<std::string, std::size_t> added_;         ///< rows, by table
  std::map<std::string, std::string> described_by_;  ///< the last run of the files with its texts
  std::vector<std::string> files_;                   ///< parts that are done
  MergeProgress progress_;
};

}  // namespace

Merged merge_results(const std::vector<fs::path>& parts, const fs::path& output,
                     const MergeProgress& progress, const Scratch& scratch) {
  if (parts.empty()) throw UsageError("expected at least one result file to merge");
  if (output.empty()) throw UsageError("the result file needs a name");
  const std::vector<std::string> files = distinct(parts, output);
  JoinedTables tables;
  for (const std::string& file : files) {
    tables.add(file, Database(file, false).run(tables_of));
  }
  std::error_code unknown;
  const bool is_new = !fs::exists(output, unknown);
  try {
    return Merge(output, scratch, std::move(tables)).run(files, progress);
  } catch (...) {
    std::error_code ignored;
    if (is_new && fs::is_empty(output, ignored)) fs::remove(output, ignored);
    throw;
  }
}

}  // namespace kvsim
