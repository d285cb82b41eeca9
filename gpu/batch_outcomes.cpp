#include "gpu/batch_outcomes.h"

#include <limits>

#include "sim/outputs/measured_steps.h"

namespace kvsim::gpu {
namespace {

// The columns that Metrics::summarize() and UnitRecord::finish() write on the CPU.
Result result_of(const Unit& unit, const MeasuredSteps& steps, const ReplayTotals& totals) {
  const double num_rows = static_cast<double>(steps.count()) * unit.group_size();
  const double num_errors = static_cast<double>(steps.num_errors()) * unit.group_size();
  const auto bytes_per_token = static_cast<std::int64_t>(unit.key.cols() * unit.key_bytes +
                                                         unit.value.cols() * unit.value_bytes);
  Result result;
  result.steps = steps.count();
  result.attention_loss = totals.attention_loss / num_rows;
  result.attention_recall = 1 - *result.attention_loss;
  result.token_accesses = totals.accesses;
  result.token_misses = totals.misses;
  result.miss_rate =
      totals.accesses == 0 ? 0 : static_cast<double>(totals.misses) / totals.accesses;
  result.output_error_mean = totals.error / num_errors;
  result.output_error_p50 = totals.error_p50;
  result.output_error_p95 = totals.error_p95;
  result.output_error_max = totals.largest_error;
  result.output_error_sq = totals.squared / num_errors;
  result.bound_mean = totals.bound / num_errors;
  result.bound_violations = totals.violations;
  result.evictions = totals.evictions;
  result.peak_tokens = totals.peak_held;
  result.cache_bytes = totals.peak_held * bytes_per_token;
  result.ties = totals.ties;
  return result;
}

Trajectory trajectory_of(BatchMemory& memory, int replay, const MeasuredSteps& steps) {
  const Batch& batch = memory.batch();
  const int num_heads = batch.shape.group_size;
  const std::size_t first = batch.tokens_of(replay);
  const std::size_t tokens = batch.tokens_of(1);
  const auto loss = memory.download(batch.attention_loss + first * num_heads, tokens * num_heads);
  const auto error = memory.download(batch.difference + first * num_heads, tokens * num_heads);
  Trajectory trajectory;
  trajectory.evicted_after = memory.download(batch.evicted_after + first, tokens);
  trajectory.attention_recall.resize(num_heads, steps.count());
  trajectory.output_error.resize(num_heads, steps.count());
  for (int step = steps.first(); step < batch.shape.num_tokens; ++step) {
    for (int head = 0; head < num_heads; ++head) {
      const std::size_t row = static_cast<std::size_t>(step) * num_heads + head;
      const int column = step - steps.first();
      trajectory.attention_recall(head, column) = static_cast<float>(1 - loss[row]);
      trajectory.output_error(head, column) = steps.takes_error(step)
                                                  ? static_cast<float>(error[row])
                                                  : std::numeric_limits<float>::quiet_NaN();
    }
  }
  return trajectory;
}

}  // namespace

std::vector<std::vector<Outcome>> outcomes_of(BatchMemory& memory,
                                              std::span<const UnitReplays> units,
                                              const ReplayOptions& options) {
  const Batch& batch = memory.batch();
  const auto totals = memory.download(batch.totals, static_cast<std::size_t>(batch.num_replays));
  const MeasuredSteps steps(options.measuring, batch.shape.prompt_length, batch.shape.num_tokens);
  std::vector<std::vector<Outcome>> outcomes;
  int replay = 0;
  for (const UnitReplays& replays : units) {
    std::vector<Outcome>& of_configurations = outcomes.emplace_back();
    for (std::size_t i = 0; i < replays.configurations.size(); ++i, ++replay) {
      Outcome& outcome = of_configurations.emplace_back();
      outcome.result = result_of(*replays.unit, steps, totals[static_cast<std::size_t>(replay)]);
      if (options.trajectories) outcome.trajectory = trajectory_of(memory, replay, steps);
    }
  }
  return outcomes;
}

}  // namespace kvsim::gpu
