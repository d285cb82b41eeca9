#include "sim/replay/replay.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/errors.h"
#include "sim/base/interrupt.h"
#include "sim/kernels/attention_kernels.h"
#include "sim/outputs/layer_errors.h"
#include "sim/outputs/stored_cache.h"
#include "sim/protocol/budget.h"
#include "sim/replay/configuration_replay.h"
#include "sim/replay/oracle_plans.h"
#include "sim/replay/replay_checks.h"
#include "traces/unit_seed.h"

namespace kvsim {
namespace {

template <class T>
std::vector<T> part_of(const std::vector<T>& all, std::size_t begin, std::size_t count) {
  if (all.empty()) return {};
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

/// [configuration][head, layer or model]
using Replays = std::vector<std::vector<std::unique_ptr<ConfigurationReplay>>>;

/// Of the block: [configuration][unit].
std::vector<std::vector<const OutputDeltas*>> deltas_of(const Replays& replays) {
  std::vector<std::vector<const OutputDeltas*>> deltas;
  for (const auto& configuration : replays) {
    std::vector<const OutputDeltas*>& of_units = deltas.emplace_back();
    for (const auto& replay : configuration) {
      for (const OutputDeltas* own : replay->deltas()) of_units.push_back(own);
    }
  }
  return deltas;
}

/// Gives each of the outcomes of a configuration, one per unit, the errors of its layer.
void annotate(const LayerErrors& errors, std::size_t configuration, std::span<Outcome> outcomes) {
  std::size_t begin = 0;
  for (std::size_t layer = 0; layer < errors.num_layers(); ++layer) {
    const std::span<const Unit> units = errors.units(layer);
    const std::span<Outcome> own = outcomes.subspan(begin, units.size());
    begin += units.size();
    LayerError error;
    if (const auto projected = errors.error(configuration, layer)) {
      error.projected_error = projected->mean;
      error.projected_error_relative = projected->relative;
    }
    if (!units.front().output_score_grad.empty()) {
      double sum = 0;
      for (const Outcome& outcome : own) sum += outcome.result.predicted_kl.value_or(0);
      error.predicted_kl = sum;
    }
    for (Outcome& outcome : own) outcome.layer_error = error;
  }
}

}  // namespace

Configuration Configuration::part(std::size_t begin, std::size_t count) const {
  const bool is_for_model = policy.rules({.budget = budget}).scope == Scope::model;
  return {.policy = policy,
          .budget = is_for_model ? budget : budget_of(begin),
          .budgets = part_of(budgets, begin, count),
          .schedules = part_of(schedules, begin, count),
          .file_scores = part_of(file_scores, begin, count)};
}

int Configuration::shared_budget(std::size_t begin, std::size_t count) const {
  for (std::size_t unit = begin + 1; unit < begin + count; ++unit) {
    if (budget_of(unit) == budget_of(begin)) continue;
    throw UsageError(fmt::format(
        "{}: the KV heads of a layer share a cache; expected one budget for them, found {} and {}; "
        "use another split",
        policy.text(), budget_of(begin), budget_of(unit)));
  }
  return budget_of(begin);
}

void check_interrupted(const std::atomic<bool>* interrupted) {
  if (interrupted != nullptr && *interrupted) throw Interrupted("interrupted");
}

std::vector<std::vector<Outcome>> replay_together(std::span<const Unit> units,
                                                  const std::vector<Configuration>& configurations,
                                                  const ReplayOptions& options,
                                                  const Backend& backend, const Backend* planning) {
  const InterruptScope scope(options.interrupted);
  const Unit& first = units.front();
  const int num_tokens = first.num_tokens();
  const Protocol& protocol = options.protocol;
  check_text(protocol, first.name.sequence, num_tokens, first.prompt_length);
  for (const Configuration& configuration : configurations) {
    check_protocol(protocol, configuration.policy, configuration.budget);
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      check_budget(protocol, configuration.budget_of(unit));
    }
  }
  const MeasuredSteps steps(protocol, first.prompt_length, num_tokens);
  std::vector<std::unique_ptr<ReplayedUnit>> replayed;
  for (const Unit& unit : units) {
    replayed.push_back(std::make_unique<ReplayedUnit>(unit, backend, protocol));
  }
  Replays replays;
  const OraclePlans plans(units, configurations, options,
                          planning != nullptr ? *planning : backend);
  for (std::size_t i = 0; i < configurations.size(); ++i) {
    replays.push_back(replays_of(plans.with_schedules(i, configurations[i]), replayed, options));
  }
  std::optional<LayerErrors> layer_errors;
  if (options.whole_layers && protocol.measures()) {
    layer_errors.emplace(units, configurations.size(), steps);
  }
  int num_steps = 0;
  for (int step = 0; step < num_tokens; step += num_steps) {
    poll_interrupt();
    num_steps = steps.together(step, kBlockSteps);
    for (const auto& unit : replayed) unit->compute(step, num_steps);
    for (const auto& configuration : replays) {
      poll_interrupt();
      for (const auto& replay : configuration) replay->advance();
    }
    for (const auto& unit : replayed) unit->compute_outputs();
    for (const auto& configuration : replays) {
      poll_interrupt();
      for (const auto& replay : configuration) replay->measure();
    }
    if (layer_errors) layer_errors->add_block(step, num_steps, deltas_of(replays));
  }
  std::vector<std::vector<Outcome>> outcomes;
  for (std::size_t i = 0; i < replays.size(); ++i) {
    std::vector<Outcome>& of_configuration = outcomes.emplace_back();
    for (const auto& replay : replays[i]) {
      for (Outcome& outcome : replay->finish()) {
        plans.annotate(i, of_configuration.size(), options.trajectories, outcome);
        of_configuration.push_back(std::move(outcome));
      }
    }
    if (layer_errors) annotate(*layer_errors, i, of_configuration);
  }
  return outcomes;
}

std::vector<Outcome> replay(const Unit& unit, const std::vector<Configuration>& configurations,
                            const ReplayOptions& options, const Backend& backend) {
  std::vector<Outcome> outcomes;
  for (auto& of_units : replay_together({&unit, 1}, configurations, options, backend)) {
    outcomes.push_back(std::move(of_units.front()));
  }
  return outcomes;
}

Context context_of(const Configuration& configuration, const Unit& unit,
                   const ReplayOptions& options, std::size_t index) {
  Context context = context_of(unit, configuration.budget, options.seed);
  if (!configuration.schedules.empty()) context.schedule = configuration.schedules[index];
  if (!configuration.file_scores.empty()) context.file_scores = configuration.file_scores[index];
  return context;
}

Context context_of(const Unit& unit, int budget, std::uint64_t seed) {
  Context context{.budget = budget,
                  .seed = unit_seed(seed, unit.name),
                  .layer = unit.name.layer,
                  .kv_head = unit.name.kv_head,
                  .unit = fmt::format("{} layer {} KV head {}", unit.name.sequence, unit.name.layer,
                                      unit.name.kv_head),
                  .scale = unit.scale,
                  .logit_softcap = unit.logit_softcap,
                  .sliding_window = unit.sliding_window,
                  .attention_chunk = unit.attention_chunk,
                  .sink_logit = unit.sink_logit,
                  .rotation = rotation_of(unit)};
  for (const Matrix& head : unit.output_projection) {
    context.output_projection.emplace_back(head.data(), static_cast<std::size_t>(head.size()));
  }
  return context;
}

}  // namespace kvsim
