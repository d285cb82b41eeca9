#include "sim/results/sinks/memory_results.h"

namespace kvsim {

MemoryResults::Unit MemoryResults::unit_of(const Result& row) {
  return {row.trace_id, row.sequence, row.layer, row.kv_head};
}

void MemoryResults::add(const std::vector<Result>& results, const std::vector<CertificateRow>&,
                        const std::vector<LayerErrorRow>&, const std::vector<SampledIntervalRow>&) {
  for (const Result& row : results) rows_[unit_of(row)][{row.policy, row.budget}] = row;
}

std::vector<Result> MemoryResults::unit_results(const Result& key) const {
  std::vector<Result> rows;
  if (const auto unit = rows_.find(unit_of(key)); unit != rows_.end()) {
    for (const auto& [replay, row] : unit->second) rows.push_back(row);
  }
  return rows;
}

std::vector<Result> MemoryResults::results() const {
  std::vector<Result> rows;
  for (const auto& [unit, of_unit] : rows_) {
    for (const auto& [replay, row] : of_unit) rows.push_back(row);
  }
  return rows;
}

}  // namespace kvsim
