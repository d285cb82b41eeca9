#include "sim/results/sinks/table_output.h"

namespace kvsim {

TableOutput::TableOutput(const Output& output, std::vector<TableSchema> schemas,
                         const RunLabels& labels)
    : schemas_(std::move(schemas)), rows_(schemas_.size()), keeps_rows_(!output.file) {
  if (!output.file) return;
  store_.emplace(*output.file, ResultStore::Access::write, output.scratch);
  for (const TableSchema& schema : schemas_) store_->create(schema);
  store_->begin_run(labels);
}

void TableOutput::add(const std::vector<TableRows>& tables) {
  if (store_) store_->replace(tables);
  if (!keeps_rows_) return;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    rows_[i].insert(rows_[i].end(), tables[i].rows.begin(), tables[i].rows.end());
  }
}

void TableOutput::finish() {
  if (store_) store_->finish_run();
}

}  // namespace kvsim
