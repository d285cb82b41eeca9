#include "sim/core/unit_record.h"

#include <algorithm>

#include "sim/core/output_difference.h"

namespace kvsim {

UnitRecord::UnitRecord(const Unit& unit, int first_measured, bool keep_trajectory)
    : num_tokens_(unit.num_tokens()),
      first_measured_(first_measured),
      keep_trajectory_(keep_trajectory) {
  if (!keep_trajectory_) return;
  const int measured = num_tokens_ - first_measured_;
  trajectory_.attention_recall.resize(unit.group_size(), measured);
  trajectory_.output_error.resize(unit.group_size(), measured);
}

void UnitRecord::add(int head, int step, const Measurement& measurement) {
  metrics_.add(measurement);
  if (!keep_trajectory_) return;
  const int column = step - first_measured_;
  trajectory_.attention_recall(head, column) = static_cast<float>(1 - measurement.attention_loss);
  trajectory_.output_error(head, column) = static_cast<float>(measurement.error);
}

void UnitRecord::add_block(const AttentionBlock& block, const Holding& holding,
                           std::span<Measurement> pending) {
  const auto num_heads = static_cast<int>(block.heads.size());
  const int num_measured = static_cast<int>(pending.size()) / num_heads;
  std::size_t next = 0;
  for (int row = block.num_steps - num_measured; row < block.num_steps; ++row) {
    for (int head = 0; head < num_heads; ++head) {
      Measurement& measurement = pending[next++];
      set_error(holding.difference(head, row), block, head, row, measurement);
      add(head, block.first_step + row, measurement);
    }
  }
}

Outcome UnitRecord::finish(Holdings holdings, bool has_bound) && {
  Outcome outcome;
  Result& result = outcome.result;
  metrics_.summarize(result);
  if (!has_bound) {
    result.bound_mean.reset();
    result.bound_violations.reset();
  }
  result.steps = num_tokens_ - first_measured_;
  const auto& left = holdings.evicted_after;
  result.evictions = std::count_if(left.begin(), left.end(),
                                   [&](std::int32_t step) { return step < num_tokens_; });
  result.peak_tokens = static_cast<std::int64_t>(holdings.peak_tokens);
  result.cache_bytes = static_cast<std::int64_t>(holdings.peak_bytes);
  if (keep_trajectory_) {
    outcome.trajectory = std::move(trajectory_);
    outcome.trajectory.evicted_after = std::move(holdings.evicted_after);
  }
  return outcome;
}

}  // namespace kvsim
