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

/// The lifetimes of all tokens in steps from `first` on. `left` is CacheUsage::evicted_after.
std::int64_t kv_footprint(std::span<const std::int32_t> left, int first) {
  std::int64_t sum = 0;
  for (int token = 0; token < std::ssize(left); ++token) {
    sum += std::max(0, left[token] - std::max(token, first));
  }
  return sum;
}

}  // namespace

UnitRecord::UnitRecord(const Unit& unit, const ReplayOptions& options)
    : num_tokens_(unit.num_tokens()),
      group_size_(unit.group_size()),
      has_gradients_(!unit.output_score_grad.empty()),
      steps_(options.protocol, unit.prompt_length, unit.num_tokens()),
      keep_trajectory_(options.trajectories),
      keep_selection_(options.selections),
      sampled_(unit.group_size()) {
  if (!options.protocol.measures()) return;
  metrics_.reserve(static_cast<std::size_t>(steps_.num_errors()) * unit.query.size());
  if (!keep_trajectory_) return;
  constexpr float kNotMeasured = std::numeric_limits<float>::quiet_NaN();
  const Matrix none =
      Matrix::Constant(unit.group_size(), num_tokens_ - steps_.first(), kNotMeasured);
  trajectory_.attention_recall = none;
  trajectory_.output_error = none;
  if (has_gradients_) trajectory_.predicted_kl = none;
}

void UnitRecord::add(int head, int step, Measurement measurement) {
  measurement.has_error = steps_.takes_error(step);
  sum({&measurement, 1});
  if (keep_trajectory_) set_trajectory(head, step, measurement);
}

void UnitRecord::sum(std::span<const Measurement> measurements) {
  metrics_.add(measurements);
  if (steps_.protocol().reference != Reference::sample) return;
  for (const Measurement& measurement : measurements) sampled_.add(measurement);
}

void UnitRecord::set_trajectory(int head, int step, const Measurement& measurement) {
  const int column = step - steps_.first();
  trajectory_.attention_recall(head, column) = static_cast<float>(1 - measurement.attention_loss);
  const auto taken = [&](double error) {
    return measurement.has_error ? static_cast<float>(error)
                                 : std::numeric_limits<float>::quiet_NaN();
  };
  trajectory_.output_error(head, column) = taken(measurement.error);
  if (has_gradients_) trajectory_.predicted_kl(head, column) = taken(measurement.predicted_kl);
}

void UnitRecord::add_selected(int step, std::span<const std::int32_t> tokens) {
  if (!keep_selection_ || !keep_trajectory_) return;
  if (trajectory_.selected_begin.empty()) {
    trajectory_.selected_begin.assign(static_cast<std::size_t>(steps_.first()) + 1, 0);
  }
  if (step < steps_.first()) return;
  trajectory_.selected.insert(trajectory_.selected.end(), tokens.begin(), tokens.end());
  trajectory_.selected_begin.push_back(std::ssize(trajectory_.selected));
}

void UnitRecord::add_block(const ReplayedUnit& unit, const CacheContents& contents,
                           std::span<Measurement> pending) {
  const AttentionBlock& block = unit.block();
  const int first_row = block.num_steps - static_cast<int>(pending.size()) / group_size_;
  std::size_t next = 0;
  for (int row = first_row; row < block.num_steps; ++row) {
    for (int head = 0; head < group_size_; ++head) {
      Measurement& measurement = pending[next++];
      const double difference = contents.difference(head, row);
      // If nothing is lost, error and bound are 0, and the block may have no outputs.
      const bool is_lost = difference != 0 || measurement.attention_loss != 0;
      if (!is_lost || !steps_.takes_error(block.first_step + row)) continue;
      set_error(difference, block, head, row, measurement);
    }
  }
  add_block(unit, contents.deltas, pending);
}

void UnitRecord::add_block(const ReplayedUnit& unit, const OutputDeltas& deltas,
                           std::span<Measurement> pending) {
  if (pending.empty()) return;
  const AttentionBlock& block = unit.block();
  MatrixDouble predicted_kl;
  if (has_gradients_) predicted_kl = unit.gradients()->predicted_kl(deltas);
  const int first_row = block.num_steps - static_cast<int>(pending.size()) / group_size_;
  std::size_t next = 0;
  for (int row = first_row; row < block.num_steps; ++row) {
    const int step = block.first_step + row;
    const bool has_error = steps_.takes_error(step);
    for (int head = 0; head < group_size_; ++head) {
      Measurement& measurement = pending[next++];
      measurement.has_error = has_error;
      if (has_gradients_) measurement.predicted_kl = predicted_kl(head, row);
      if (keep_trajectory_) set_trajectory(head, step, measurement);
    }
  }
  sum(pending);
}

Outcome UnitRecord::finish(CacheUsage usage, bool has_bound) && {
  Outcome outcome;
  Result& result = outcome.result;
  const Protocol& protocol = steps_.protocol();
  if (protocol.measures()) {
    metrics_.summarize(group_size_, result);
    if (!has_gradients_) result.predicted_kl.reset();
    if (!has_bound) {
      result.bound_mean.reset();
      result.bound_violations.reset();
    }
  } else {
    leave_out_measurements(result);
  }
  if (protocol.reference == Reference::sample) outcome.intervals = sampled_.intervals(result);
  result.steps = protocol.measures() ? steps_.count() : num_tokens_ - steps_.first();
  const auto& left = usage.evicted_after;
  result.evictions = std::count_if(left.begin(), left.end(),
                                   [&](std::int32_t step) { return step < num_tokens_; });
  result.peak_tokens = static_cast<std::int64_t>(usage.peak_tokens);
  result.cache_bytes = static_cast<std::int64_t>(usage.peak_bytes);
  if (usage.is_set) result.kv_footprint = kv_footprint(left, steps_.first());
  result.ties = usage.ties;
  if (keep_trajectory_) {
    outcome.trajectory = std::move(trajectory_);
    outcome.trajectory.evicted_after = std::move(usage.evicted_after);
  }
  return outcome;
}

}  // namespace kvsim
