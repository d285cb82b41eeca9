#include "gpu/batch_outcomes.h"

#include <limits>
#include <optional>

#include "sim/protocol/measured_steps.h"

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
  result.kv_footprint = totals.footprint;
  result.ties = totals.ties;
  return result;
}

/// Downloads the trajectories of a batch. Each array comes through the same page-locked memory, as
/// a device keeps only the last one for the next batch.
class Trajectories {
 public:
  Trajectories(BatchMemory& memory, const MeasuredSteps& steps)
      : memory_(memory),
        steps_(steps),
        num_heads_(memory.batch().shape.group_size),
        host_(memory.allocate_host(rows() * sizeof(double))) {}

  Trajectory of(int replay) {
    const Batch& batch = memory_.batch();
    const std::size_t first = batch.tokens_of(replay);
    Trajectory trajectory;
    const auto evicted_after = fetch(batch.evicted_after + first, batch.tokens_of(1));
    trajectory.evicted_after.assign(evicted_after.begin(), evicted_after.end());
    const auto loss = fetch(batch.attention_loss + first * num_heads_, rows());
    fill(trajectory.attention_recall, [&](int, std::size_t row) { return 1 - loss[row]; });
    const auto error = fetch(batch.difference + first * num_heads_, rows());
    fill(trajectory.output_error, [&](int step, std::size_t row) {
      return steps_.takes_error(step) ? error[row] : std::numeric_limits<double>::quiet_NaN();
    });
    return trajectory;
  }

 private:
  std::size_t rows() const { return memory_.batch().tokens_of(1) * num_heads_; }

  template <class T>
  std::span<const T> fetch(const T* from, std::size_t count) {
    return memory_.download(from, count, host_.get());
  }

  // `value` takes a step and its row of an array [n, H].
  template <class Values, class Value>
  void fill(Values& values, Value value) {
    const auto num_heads = static_cast<int>(num_heads_);
    values.resize(num_heads, steps_.count());
    for (int step = steps_.first(); step < memory_.batch().shape.num_tokens; ++step) {
      for (int head = 0; head < num_heads; ++head) {
        const std::size_t row = static_cast<std::size_t>(step) * num_heads_ + head;
        values(head, step - steps_.first()) = static_cast<float>(value(step, row));
      }
    }
  }

  BatchMemory& memory_;
  const MeasuredSteps& steps_;
  std::size_t num_heads_;
  std::shared_ptr<std::byte> host_;
};

}  // namespace

std::vector<std::vector<Outcome>> outcomes_of(BatchMemory& memory,
                                              std::span<const UnitReplays> units,
                                              const ReplayOptions& options) {
  const Batch& batch = memory.batch();
  const auto totals = memory.download(batch.totals, static_cast<std::size_t>(batch.num_replays));
  const MeasuredSteps steps(options.protocol, batch.shape.prompt_length, batch.shape.num_tokens);
  std::optional<Trajectories> trajectories;
  if (options.trajectories) trajectories.emplace(memory, steps);
  std::vector<std::vector<Outcome>> outcomes;
  int replay = 0;
  for (const UnitReplays& replays : units) {
    std::vector<Outcome>& of_configurations = outcomes.emplace_back();
    for (std::size_t i = 0; i < replays.configurations.size(); ++i, ++replay) {
      Outcome& outcome = of_configurations.emplace_back();
      outcome.result = result_of(*replays.unit, steps, totals[static_cast<std::size_t>(replay)]);
      if (trajectories) outcome.trajectory = trajectories->of(replay);
    }
  }
  return outcomes;
}

}  // namespace kvsim::gpu
