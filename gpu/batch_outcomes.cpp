#include "gpu/batch_outcomes.h"

#include <algorithm>

#include "sim/outputs/output_difference.h"
#include "sim/replay/unit_record.h"

namespace kvsim::gpu {
namespace {

/// Measurements that all replays of a unit share: [steps, heads].
struct UnitMeasurements {
  std::vector<std::int32_t> num_pivotal;
  std::vector<double> output_norm;
  std::vector<double> longest_value;  // per step
};

/// Measurements of one replay: [steps, heads].
struct ReplayMeasurements {
  std::vector<double> attention_loss;
  std::vector<std::int32_t> num_misses;
  std::vector<double> difference;
  std::vector<std::int32_t> evicted_after;  // per token
  std::int32_t num_ties;
};

// The most tokens held after a step that may evict.
std::size_t peak_tokens(const std::vector<std::int32_t>& evicted_after, int prompt_length) {
  const auto num_tokens = static_cast<int>(evicted_after.size());
  std::vector<int> num_left(evicted_after.size() + 1, 0);
  for (const std::int32_t step : evicted_after) ++num_left[static_cast<std::size_t>(step)];
  int held = 0;
  int most = 0;
  for (int step = 0; step < num_tokens; ++step) {
    held += 1 - num_left[static_cast<std::size_t>(step)];
    if (step + 1 >= prompt_length) most = std::max(most, held);
  }
  return static_cast<std::size_t>(most);
}

Outcome outcome_of(const Unit& unit, int prompt_length, const ReplayOptions& options,
                   const UnitMeasurements& of_unit, ReplayMeasurements of_replay) {
  UnitRecord record(unit, prompt_length, options);
  const int num_heads = unit.group_size();
  for (int step = prompt_length; step < unit.num_tokens(); ++step) {
    for (int head = 0; head < num_heads; ++head) {
      const std::size_t row = static_cast<std::size_t>(step) * num_heads + head;
      Measurement measurement;
      measurement.attention_loss = of_replay.attention_loss[row];
      measurement.accesses = of_unit.num_pivotal[row];
      measurement.misses = of_replay.num_misses[row];
      set_error(of_replay.difference[row], of_unit.output_norm[row], of_unit.longest_value[step],
                measurement);
      record.add(head, step, measurement);
    }
  }
  const std::size_t peak = peak_tokens(of_replay.evicted_after, prompt_length);
  const auto bytes_per_token = static_cast<std::size_t>(unit.key.cols() * unit.key_bytes +
                                                        unit.value.cols() * unit.value_bytes);
  Outcome outcome = std::move(record).finish(
      {std::move(of_replay.evicted_after), peak, peak * bytes_per_token, of_replay.num_ties}, true);
  return outcome;
}

}  // namespace

std::vector<std::vector<Outcome>> outcomes_of(BatchMemory& memory,
                                              std::span<const UnitReplays> units,
                                              const ReplayOptions& options) {
  const Batch& batch = memory.batch();
  const auto tokens = static_cast<std::size_t>(batch.shape.num_tokens);
  const std::size_t rows = tokens * static_cast<std::size_t>(batch.shape.group_size);
  std::vector<std::vector<Outcome>> outcomes;
  std::size_t replay = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const Unit& unit = *units[i].unit;
    const UnitMeasurements of_unit{memory.download(batch.num_pivotal + i * rows, rows),
                                   memory.download(batch.output_norm + i * rows, rows),
                                   longest_values(unit)};
    std::vector<Outcome>& of_configurations = outcomes.emplace_back();
    for (std::size_t c = 0; c < units[i].configurations.size(); ++c, ++replay) {
      of_configurations.push_back(
          outcome_of(unit, batch.shape.prompt_length, options, of_unit,
                     {memory.download(batch.attention_loss + replay * rows, rows),
                      memory.download(batch.num_misses + replay * rows, rows),
                      memory.download(batch.difference + replay * rows, rows),
                      memory.download(batch.evicted_after + replay * tokens, tokens),
                      memory.download(batch.num_ties + replay, 1).front()}));
    }
  }
  return outcomes;
}

}  // namespace kvsim::gpu
