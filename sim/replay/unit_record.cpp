#include "sim/replay/unit_record.h"

#include <algorithm>
#include <limits>

#include "sim/outputs/output_difference.h"

namespace kvsim {
namespace {

void leave_out_measurements(Result& result) {
  for (const Column& column : result_columns()) {
    if (column.can_be_null()) column.set(result, std::monostate());
  }
}

}  // namespace

UnitRecord::UnitRecord(const Unit& unit, int first_measured, const ReplayOptions& options)
    : num_tokens_(unit.num_tokens()),
      first_measured_(first_measured),
      keep_trajectory_(options.trajectories),
      keep_selection_(options.selections),
      measuring_(options.measuring) {
  if (!measuring_.has_reference()) return;
  const int measured = num_tokens_ - first_measured_;
  const int taken = (measured - 1) / measuring_.error_stride + 1;
  metrics_.reserve(static_cast<std::size_t>(taken) * unit.query.size());
  if (!keep_trajectory_) return;
  trajectory_.attention_recall.resize(unit.group_size(), measured);
  trajectory_.output_error.resize(unit.group_size(), measured);
}

void UnitRecord::add(int head, int step, Measurement measurement) {
  measurement.has_error = takes_error(step);
  metrics_.add(measurement);
  if (!keep_trajectory_) return;
  const int column = step - first_measured_;
  trajectory_.attention_recall(head, column) = static_cast<float>(1 - measurement.attention_loss);
  trajectory_.output_error(head, column) = measurement.has_error
                                               ? static_cast<float>(measurement.error)
                                               : std::numeric_limits<float>::quiet_NaN();
}

void UnitRecord::add_selected(int step, std::span<const std::int32_t> tokens) {
  if (!keep_selection_ || !keep_trajectory_) return;
  if (trajectory_.selected_begin.empty()) {
    trajectory_.selected_begin.assign(static_cast<std::size_t>(first_measured_) + 1, 0);
  }
  if (step < first_measured_) return;
  trajectory_.selected.insert(trajectory_.selected.end(), tokens.begin(), tokens.end());
  trajectory_.selected_begin.push_back(std::ssize(trajectory_.selected));
}

void UnitRecord::add_block(const AttentionBlock& block, const CacheContents& contents,
                           std::span<Measurement> pending) {
  const auto num_heads = static_cast<int>(block.heads.size());
  const int num_measured = static_cast<int>(pending.size()) / num_heads;
  std::size_t next = 0;
  for (int row = block.num_steps - num_measured; row < block.num_steps; ++row) {
    const int step = block.first_step + row;
    for (int head = 0; head < num_heads; ++head) {
      Measurement& measurement = pending[next++];
      const double difference = contents.difference(head, row);
      // If nothing is lost, error and bound are 0, and the block may have no outputs.
      const bool is_lost = difference != 0 || measurement.attention_loss != 0;
      if (is_lost && takes_error(step)) set_error(difference, block, head, row, measurement);
      add(head, step, measurement);
    }
  }
}

Outcome UnitRecord::finish(CacheUsage usage, bool has_bound) && {
  Outcome outcome;
  Result& result = outcome.result;
  if (measuring_.has_reference()) {
    metrics_.summarize(result);
    if (!has_bound) {
      result.bound_mean.reset();
      result.bound_violations.reset();
    }
  } else {
    leave_out_measurements(result);
  }
  result.steps = num_tokens_ - first_measured_;
  const auto& left = usage.evicted_after;
  result.evictions = std::count_if(left.begin(), left.end(),
                                   [&](std::int32_t step) { return step < num_tokens_; });
  result.peak_tokens = static_cast<std::int64_t>(usage.peak_tokens);
  result.cache_bytes = static_cast<std::int64_t>(usage.peak_bytes);
  result.ties = usage.ties;
  if (keep_trajectory_) {
    outcome.trajectory = std::move(trajectory_);
    outcome.trajectory.evicted_after = std::move(usage.evicted_after);
  }
  return outcome;
}

}  // namespace kvsim
