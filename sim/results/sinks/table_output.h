#pragma once

#include <optional>
#include <vector>

#include "sim/results/run.h"
#include "sim/results/sinks/output.h"
#include "sim/results/store.h"

namespace kvsim {

/// Takes the tables of a command that makes its own, as `curve` and `analyze` do: into a result
/// file, or into memory.
class TableOutput {
 public:
  /// Creates the tables and begins a run, if there is a file. Throws what ResultStore throws.
  TableOutput(const Output& output, std::vector<TableSchema> schemas, const RunLabels& labels);

  /// Keeps rows in memory in addition to the file.
  void keep_rows() { keeps_rows_ = true; }

  /// `tables` are parallel to the schemas.
  void add(const std::vector<TableRows>& tables);

  /// Says in the file that all was done.
  void finish();

  /// Brings the rows of the result file to their place before the end, and returns the file that
  /// has them.
  std::filesystem::path keep() { return store_->keep(); }

  const std::vector<TableSchema>& schemas() const { return schemas_; }

  /// The rows of each table that are in memory.
  std::vector<std::vector<std::vector<Value>>>& rows() { return rows_; }

  /// Of the rows; empty without a file.
  std::string run_id() const { return store_ ? store_->run_id() : ""; }

 private:
  std::vector<TableSchema> schemas_;
  std::vector<std::vector<std::vector<Value>>> rows_;  // [table][row][column]
  std::optional<ResultStore> store_;
  bool keeps_rows_;
};

}  // namespace kvsim
