#include "gpu/batch_replay.h"

#include <algorithm>
#include <iterator>

#include "gpu/batch_memory.h"
#include "gpu/batch_outcomes.h"
#include "gpu/replay_groups.h"
#include "sim/replay/arrival_score.h"

namespace kvsim::gpu {
namespace {

// One thread block replays one configuration of a unit: enough of them for several on each
// multiprocessor of any current device.
constexpr std::size_t kBusyReplays = 4096;

using Units = std::span<const UnitReplays>;

Shape replay_shape_of(const Unit& unit, const ReplayOptions& options) {
  Shape shape = shape_of(unit);
  shape.prompt_length = options.protocol.first_measured(unit.prompt_length);
  return shape;
}

Rules rules_of(const Configuration& configuration, const Unit& unit, const ReplayOptions& options) {
  return configuration.policy.rules(context_of(configuration, unit, options));
}

// Rounded up, so that the memory of the next replay is aligned for double.
std::size_t aligned(std::size_t bytes) {
  return (bytes + sizeof(double) - 1) / sizeof(double) * sizeof(double);
}

int most_held_by(const Configuration& configuration, const ReplayOptions& options, int num_tokens) {
  return std::min(options.protocol.most_held(configuration.budget_of(0)), num_tokens);
}

BatchSize size_of(Units units, const ReplayOptions& options) {
  BatchSize size{.shape = replay_shape_of(*units.front().unit, options)};
  size.num_units = static_cast<int>(units.size());
  int most_held = size.shape.prompt_length;
  for (const UnitReplays& replays : units) {
    for (const Configuration& configuration : replays.configurations) {
      ++size.num_replays;
      most_held = std::max(most_held, most_held_by(configuration, options, size.shape.num_tokens));
      const Rules rules = rules_of(configuration, *replays.unit, options);
      if (rules.score->kind == ScoreRule::Kind::newest) ++size.num_arrival_rows;
      size.remembered += aligned(remembered_bytes(*rules.score, size.shape));
    }
  }
  // During a block the gaps stay and each step adds a token.
  size.capacity = std::min(size.shape.num_tokens, most_held + kSteps);
  return size;
}

ReplayTask replay_task_of(const Configuration& configuration, const Rules& rules, int num_tokens,
                          const ReplayOptions& options) {
  ReplayTask task;
  task.most_held = most_held_by(configuration, options, num_tokens);
  task.never = options.protocol.evicts_once();
  task.budget = std::min(configuration.budget_of(0), num_tokens);
  const int held = rules.bounded ? task.budget : num_tokens;
  task.protect_first = std::min(rules.protect_first, held);
  task.protect_newest = std::min(rules.protect_newest, held - task.protect_first);
  task.selects = rules.selects;
  task.drop = rules.drop;
  task.sees_full_attention = rules.sees_full_attention;
  task.rule = *rules.score;
  return task;
}

void add_arrival_scores(const Configuration& configuration, const Unit& unit,
                        const ReplayOptions& options, std::vector<double>& scores) {
  const auto policy = configuration.policy.make(context_of(configuration, unit, options));
  for (int token = 0; token < unit.num_tokens(); ++token) {
    scores.push_back(arrival_score(*policy, unit, token));
  }
}

template <class T>
void append(std::vector<T>& to, std::vector<T> from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

// Returns the groups in which the replays run.
ReplayGroups upload(Units units, const ReplayOptions& options, BatchMemory& memory) {
  std::vector<UnitTask> unit_tasks;
  std::vector<const Unit*> recorded;
  std::vector<ReplayTask> replay_tasks;
  std::vector<double> arrival_scores;
  std::vector<double> longest;
  std::size_t remembered = 0;
  for (const UnitReplays& replays : units) {
    UnitTask unit = task_of(*replays.unit);
    unit.first_replay = static_cast<int>(replay_tasks.size());
    unit.num_replays = static_cast<int>(replays.configurations.size());
    for (const Configuration& configuration : replays.configurations) {
      const Rules rules = rules_of(configuration, *replays.unit, options);
      ReplayTask task = replay_task_of(configuration, rules, replays.unit->num_tokens(), options);
      task.unit = static_cast<int>(unit_tasks.size());
      task.remembered = remembered;
      task.remembered_bytes = aligned(remembered_bytes(task.rule, memory.batch().shape));
      remembered += task.remembered_bytes;
      if (task.rule.kind == ScoreRule::Kind::newest) {
        task.arrival_row = static_cast<int>(arrival_scores.size()) / replays.unit->num_tokens();
        add_arrival_scores(configuration, *replays.unit, options, arrival_scores);
      }
      memory.batch().num_selecting += static_cast<int>(task.selects);
      replay_tasks.push_back(task);
    }
    append(longest, longest_values(*replays.unit));
    unit_tasks.push_back(unit);
    recorded.push_back(replays.unit);
  }
  const Shape& shape = memory.batch().shape;
  share_prompts(shape, arrival_scores, replay_tasks);
  ReplayGroups groups(shape, replay_tasks);
  memory.upload_units(unit_tasks, recorded);
  memory.upload_replays(replay_tasks, groups.order(), arrival_scores, longest);
  return groups;
}

// Replays and measures a block whose last step may evict.
void replay_block(Device& device, const ReplayGroups& groups, Batch& batch) {
  const bool begins_in_prompt = batch.first_step < batch.shape.prompt_length;
  if (begins_in_prompt && batch.first_step > 0) device.run(Kernel::share_prompts, batch);
  for (const ReplayGroup& group : groups.of_block(batch.first_step, batch.num_steps)) {
    batch.group = group;
    device.run(Kernel::replay_steps, batch);
  }
  if (batch.width() == batch.shape.prompt_length) return;  // its steps are not measured
  for (const Kernel kernel : {Kernel::link_caches, Kernel::list_terms, Kernel::sum_values,
                              Kernel::output_differences, Kernel::select_tokens}) {
    device.run(kernel, batch);
  }
}

void run_blocks(Device& device, const ReplayGroups& groups, Batch& batch,
                const ReplayOptions& options) {
  const int num_tokens = batch.shape.num_tokens;
  for (batch.first_step = 0; batch.first_step < num_tokens; batch.first_step += kSteps) {
    check_interrupted(options.interrupted);
    batch.num_steps = std::min(kSteps, num_tokens - batch.first_step);
    device.multiply_keys(batch);
    device.run(Kernel::weigh_row, batch);
    if (batch.width() < batch.shape.prompt_length) {
      batch.group = groups.through_prompt();
      device.run(Kernel::score_prompts, batch);
    } else {
      replay_block(device, groups, batch);
    }
    device.wait();  // so that an interruption is noticed within one block
  }
  device.run(Kernel::total_replay, batch);
}

std::vector<std::vector<Outcome>> replay_batch(Device& device, Units units,
                                               const ReplayOptions& options) {
  BatchMemory memory(device, size_of(units, options));
  const ReplayGroups groups = upload(units, options, memory);
  memory.batch().error_stride = options.protocol.error_stride;
  run_blocks(device, groups, memory.batch(), options);
  return outcomes_of(memory, units, options);
}

std::vector<std::vector<Outcome>> replay_or_split(Device& device, Units units,
                                                  const ReplayOptions& options) {
  const std::span<const Configuration> configurations = units.front().configurations;
  const bool is_single = units.size() == 1 && configurations.size() <= 1;
  try {
    return replay_batch(device, units, options);
  } catch (const OutOfDeviceMemory&) {
    if (is_single) throw;
  }
  if (units.size() > 1) {
    const std::size_t half = units.size() / 2;
    auto outcomes = replay_or_split(device, units.first(half), options);
    append(outcomes, replay_or_split(device, units.subspan(half), options));
    return outcomes;
  }
  const std::size_t half = configurations.size() / 2;
  const UnitReplays first{units.front().unit, configurations.first(half)};
  const UnitReplays second{units.front().unit, configurations.subspan(half)};
  auto outcomes = replay_or_split(device, {&first, 1}, options);
  append(outcomes.front(), std::move(replay_or_split(device, {&second, 1}, options).front()));
  return outcomes;
}

}  // namespace

bool can_replay(const Rules& rules, const Protocol& protocol) {
  if (!protocol.has_reference() || !protocol.paging.is_by_token()) return false;
  if (!rules.score || rules.scope != Scope::head || !rules.is_exact() || rules.prunes) return false;
  if (!rules.selects) return rules.bounded;
  return rules.sees_full_attention && rules.score->kind == ScoreRule::Kind::attention;
}

std::size_t units_at_once(const ReplayShape& shape, std::span<const Rules> rules,
                          std::size_t free_bytes) {
  BatchSize size{.shape = {.num_tokens = static_cast<int>(shape.num_tokens),
                           .group_size = static_cast<int>(shape.group_size),
                           .head_dim = static_cast<int>(shape.head_dim),
                           .value_dim = static_cast<int>(shape.value_dim)}};
  size.num_units = 1;
  size.num_replays = size.num_arrival_rows = static_cast<int>(rules.size());
  size.capacity = size.shape.num_tokens;
  for (const Rules& rule : rules) size.remembered += remembered_bytes(*rule.score, size.shape);
  const std::size_t busy =
      (kBusyReplays + rules.size() - 1) / std::max<std::size_t>(1, rules.size());
  return std::clamp<std::size_t>(free_bytes / batch_bytes(size), 1, busy);
}

std::vector<std::vector<Outcome>> replay_on(Device& device, Units units,
                                            const ReplayOptions& options) {
  std::vector<std::vector<Outcome>> outcomes(units.size());
  std::vector<bool> is_done(units.size(), false);
  std::vector<Shape> shapes;
  for (const UnitReplays& of_unit : units) {
    shapes.push_back(replay_shape_of(*of_unit.unit, options));
  }
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (is_done[i]) continue;
    std::vector<UnitReplays> alike;
    std::vector<std::size_t> places;
    for (std::size_t j = i; j < units.size(); ++j) {
      if (shapes[j] != shapes[i]) continue;
      is_done[j] = true;
      alike.push_back(units[j]);
      places.push_back(j);
    }
    auto of_alike = replay_or_split(device, alike, options);
    for (std::size_t j = 0; j < places.size(); ++j) outcomes[places[j]] = std::move(of_alike[j]);
  }
  return outcomes;
}

}  // namespace kvsim::gpu
