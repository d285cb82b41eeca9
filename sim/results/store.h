#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/results/local_disk/scratch.h"
#include "sim/results/result_sink.h"
#include "sim/results/table.h"
#include "sim/results/table_schema.h"

namespace kvsim {

class Database;
struct Run;
struct RunLabels;

/// The result file: a SQLite database with the table `replay`, keyed by the first `kKeyColumns`
/// columns of a Result, the view `regret` of it (regret.h), the table `certificate` of proven
/// recall bounds, the table `run` of the commands that wrote rows (run.h), and the tables of
/// analyses and curves, which the table `about` explains (table_schema.h). Rows survive a crash of
/// the program once add() or replace() has returned, at first on the local disk if Scratch names
/// one.
///
/// All members throw DataError if the file is not a result file, std::runtime_error if the database
/// cannot be read or written.
class ResultStore final : public ResultSink {
 public:
  enum class Access { read, write };

  /// Access::write creates the file and the table if they are missing, and gives the table of an
  /// earlier version the columns that it lacks, with NULL in its rows. Throws UsageError if `file`
  /// is empty. On a file system that machines share, or with `scratch`, the file is written on a
  /// local disk and brought to its place whole: now and then, by finish_run() and by the
  /// destructor, which tells what fails.
  ResultStore(const std::filesystem::path& file, Access access, const Scratch& scratch = {});
  /// In memory, as if in an empty file: for tables that need its checks.
  ResultStore();
  ~ResultStore() override;

  /// Throws DataError if the file, of an earlier version, does not accept NULL in the columns that
  /// need a reference.
  void check_accepts_unmeasured() const;

  /// Adds a row to the table `run`. All rows that are written from here on are of this run.
  void begin_run(const RunLabels& labels);

  /// Says there that the run is finished: the file holds all that its command asked for. Brings a
  /// file that is written on a local disk to its place; if that fails, the error names the local
  /// file, which stays.
  void finish_run();

  /// Brings the rows to their place, before the end of a run too, and tells what fails. Returns the
  /// file that has them.
  std::filesystem::path keep();

  /// The run_id of that row; empty before begin_run().
  std::string run_id() const;

  void add(const std::vector<Result>& results, const std::vector<CertificateRow>& certificates = {},
           const std::vector<LayerErrorRow>& layer_errors = {},
           const std::vector<SampledIntervalRow>& intervals = {}) override;

  /// Gives the rows with the keys of `results` their labels; a result without one changes nothing.
  /// Returns the number of rows that had another label.
  int set_labels(const std::vector<Result>& results);

  /// The bound that the certificate of this row proves, if it has one.
  std::optional<double> recall_bound(const Result& result) const;

  std::vector<Result> unit_results(const Result& key) const override;

  /// The policy and the budget of all rows of the unit, mode and seed of `key`, with their
  /// policy_code.
  std::map<std::pair<std::string, std::int64_t>, std::string> finished(const Result& key) const;

  /// The same for the rows of `layer_error` of the unit's layer.
  std::map<std::pair<std::string, std::int64_t>, std::string> finished_layers(
      const Result& key) const;

  /// The rows of one trace in this mode and with this seed, ordered by key.
  std::vector<Result> results(const std::string& trace_id, const std::string& mode,
                              std::int64_t seed) const;

  /// The rows of `sampled_interval` of one trace in this mode and with this seed, ordered by key.
  std::vector<SampledIntervalRow> sampled_intervals(const std::string& trace_id,
                                                    const std::string& mode,
                                                    std::int64_t seed) const;

  /// The policies that have rows, in the order of their names.
  std::vector<std::string> policies() const;

  /// The labels of rows, in order.
  std::vector<std::string> labels() const;

  /// The policies of rows with this label, in the order of their names.
  std::vector<std::string> policies_labelled(const std::string& label) const;

  /// All rows of one policy, ordered by key.
  std::vector<Result> policy_results(const std::string& policy) const;

  /// The rows of `layer_error` of one policy, ordered by key, with what a comparison needs.
  std::vector<LayerErrorRow> policy_layer_errors(const std::string& policy) const;

  /// Creates the table if it is missing and writes its meaning to the table `about`. Throws
  /// DataError if the file has a table of that name with other columns.
  void create(const TableSchema& schema);

  /// Adds all rows to tables that create() has made, or on failure none. Replaces rows with the
  /// same key, with what their parts hold.
  void replace(const std::vector<TableRows>& tables);

  /// Any table or view of the file, ordered by its key. Throws UsageError if it does not exist,
  /// DataError for values that its columns cannot have (integrity/value_ranges.h).
  Table table(const std::string& name) const;

 private:
  std::unique_ptr<Database> database_;
  std::unique_ptr<Run> run_;  // none: rows keep the run that they name
};

}  // namespace kvsim
