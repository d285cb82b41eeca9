#include "sim/core/replay.h"

#include <fmt/format.h>

#include <algorithm>

#include "policies/errors.h"
#include "policies/random_bits.h"
#include "sim/core/attention_kernels.h"
#include "sim/core/configuration_replay.h"
#include "sim/core/plans.h"

namespace kvsim {
std::vector<std::vector<Outcome>> replay_together(std::span<const Unit> units,
                                                  const std::vector<Configuration>& configurations,
                                                  const ReplayOptions& options,
                                                  const Backend& backend, const Backend* planning) {
  const Unit& first = units.front();
  const int num_tokens = first.num_tokens();
  check_mode(first.name.sequence, num_tokens, first.prompt_length, options.mode);
  for (const Configuration& configuration : configurations) {
    check_reference(configuration.policy, options.measuring);
  }
  std::vector<std::unique_ptr<ReplayedUnit>> replayed;
  for (const Unit& unit : units) {
    replayed.push_back(std::make_unique<ReplayedUnit>(unit, backend, options.measuring));
  }
  std::vector<std::vector<std::unique_ptr<ConfigurationReplay>>> replays;
  const Plans plans(units, configurations, options, planning != nullptr ? *planning : backend);
  for (std::size_t i = 0; i < configurations.size(); ++i) {
    replays.push_back(replays_of(plans.with_schedules(i, configurations[i]), replayed, options));
  }
  for (int step = 0; step < num_tokens; step += kBlockSteps) {
    if (options.interrupted != nullptr && *options.interrupted) throw Interrupted("interrupted");
    for (const auto& unit : replayed) unit->compute(step, std::min(kBlockSteps, num_tokens - step));
    for (const auto& configuration : replays) {
      for (const auto& replay : configuration) replay->advance();
    }
    for (const auto& unit : replayed) unit->compute_outputs();
    for (const auto& configuration : replays) {
      for (const auto& replay : configuration) replay->measure();
    }
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
                   const ReplayOptions& options) {
  Context context{.budget = configuration.budget, .seed = unit_seed(options.seed, unit.name)};
  if (!configuration.schedules.empty()) context.schedule = configuration.schedules.front();
  return context;
}

void check_mode(const std::string& sequence, int num_tokens, int prompt_length, Mode mode) {
  if (mode == Mode::stream) return;
  if (prompt_length == 0) {
    throw UsageError(fmt::format(
        "sequence '{}' has no prompt, so --mode prefill cannot replay it; use --mode stream",
        sequence));
  }
  if (prompt_length == num_tokens) {
    throw UsageError(fmt::format(
        "sequence '{}' ends with its prompt, so --mode prefill has no step to measure; use --mode "
        "stream",
        sequence));
  }
}

std::uint64_t unit_seed(std::uint64_t seed, const UnitName& unit) {
  const std::uint64_t of_sequence = random_bits(seed, unit.sequence);
  const std::uint64_t of_layer = random_bits(of_sequence, static_cast<std::uint64_t>(unit.layer));
  return random_bits(of_layer, static_cast<std::uint64_t>(unit.kv_head));
}

std::string mode_name(Mode mode, const Measuring& measuring) {
  const std::string name = mode == Mode::stream ? "stream" : "prefill";
  if (!measuring.has_reference()) return name + ":reference=none";
  return measuring.every == 1 ? name : fmt::format("{}:every={}", name, measuring.every);
}

}  // namespace kvsim
