#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/core/table.h"
#include "sim/core/table_schema.h"

namespace kvsim {

class Database;

/// The result file: a SQLite database with the table `replay`, keyed by the first `kKeyColumns`
/// columns of a Result, the view `regret` of it (regret.h), with an oracle that proves bounds the
/// table `certificate`, and tables that say themselves what they hold (table_schema.h). What add()
/// or replace() has returned from survives a crash of the program.
///
/// All members throw DataError if the file is not a result file, std::runtime_error if the database
/// cannot be read or written.
class ResultStore {
 public:
  enum class Access { read, write };

  /// Access::write creates the file and the table where they are missing. Throws UsageError if
  /// `file` is empty.
  ResultStore(const std::filesystem::path& file, Access access);
  ~ResultStore();

  /// Throws DataError if the file cannot take rows that leave out what a reference measures: one
  /// of an earlier version.
  void check_takes_unmeasured() const;

  /// Adds all rows or, if that fails, none. A row whose key is there already is left as it is.
  void add(const std::vector<Result>& results);

  /// Adds to the table `certificate` that no policy exceeds `recall_bound` on the unit, at the
  /// budget, mode and seed of `result`, whose policy is the oracle that proved it.
  void add_certificate(const Result& result, double recall_bound);

  /// What add_certificate() has added for this row, if anything.
  std::optional<double> recall_bound(const Result& result) const;

  /// All rows of the unit, mode and seed of `key`.
  std::vector<Result> unit_results(const Result& key) const;

  /// The policies and budgets that are there for the unit, mode and seed of `key`.
  std::set<std::pair<std::string, std::int64_t>> finished(const Result& key) const;

  /// The rows of one trace in this mode and with this seed, ordered by key.
  std::vector<Result> results(const std::string& trace_id, const std::string& mode,
                              std::int64_t seed) const;

  /// Makes the table where it is missing and notes in the table `about` what it holds. Throws
  /// DataError if the file has one of that name with other columns.
  void create(const TableSchema& schema);

  /// Adds all rows to tables that create() has made, in place of rows with the same key, or none.
  void replace(const std::vector<TableRows>& tables);

  /// Any table or view of the file, ordered by its key. Throws UsageError if there is none of that
  /// name.
  Table table(const std::string& name) const;

 private:
  std::unique_ptr<Database> database_;
};

}  // namespace kvsim
