#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <vector>

#include "policies/interface/estimator.h"
#include "policies/registry/spec.h"
#include "sim/attention/attention.h"
#include "sim/base/interrupt.h"
#include "sim/protocol/protocol.h"
#include "sim/results/layer_error.h"
#include "sim/results/result.h"
#include "sim/results/sampled_interval.h"
#include "sim/results/trajectory.h"

namespace kvsim {

/// One policy at one budget.
struct Configuration {
  Spec policy;
  int budget = 1;                 ///< tokens per KV head; of an estimator: vectors
  std::vector<int> budgets = {};  ///< per unit; empty: `budget` for each

  /// Per unit, for a policy that follows a schedule: see Context.
  std::vector<std::vector<std::int32_t>> schedules = {};
  std::vector<std::vector<float>> file_scores = {};  ///< the same for one that reads scores

  int budget_of(std::size_t unit) const { return budgets.empty() ? budget : budgets[unit]; }

  /// Of `count` units from unit `begin` on, which share a cache. Throws UsageError if they differ.
  int shared_budget(std::size_t begin, std::size_t count) const;

  /// The same policy for `count` units from unit `begin` on. A policy for the model keeps the
  /// model's budget.
  Configuration part(std::size_t begin, std::size_t count) const;
};

struct ReplayOptions {
  Protocol protocol = {};
  std::uint64_t seed = 0;  ///< see unit_seed()
  bool trajectories = false;
  bool selections = false;  ///< trajectories say what each step attends to, of policies that select
  bool whole_layers = false;  ///< all heads of the units' layers are there: measure layers as well
  const std::atomic<bool>* interrupted = nullptr;  ///< polled; true ends the replay
  int planning_threads = 1;  ///< that an oracle may use; results do not depend on it
};

struct Outcome {
  Result result;          ///< the measured columns; the caller fills in the others
  Trajectory trajectory;  ///< empty unless asked for

  std::optional<Proof> proof;  ///< of some oracles only

  /// Of the unit's layer; with ReplayOptions::whole_layers.
  std::optional<LayerError> layer_error = {};

  Amounts amounts = {};  ///< of an estimator, at the end of the replay; else empty

  std::vector<SampledInterval> intervals = {};  ///< of measured columns; with Reference::sample
};

/// Throws Interrupted if the flag is there and set.
void check_interrupted(const std::atomic<bool>* interrupted);

/// Replays units of one sequence through every configuration. The full attention, if there is a
/// reference, is computed once, block by block, and shared by all. A policy whose scope is a layer
/// or the model decides for all units given, which are those of one layer or of several, ordered by
/// layer; one whose scope is a head, for each alone. Returns outcomes [configuration][unit].
/// Oracles plan with the attention of `planning`, if that is not null, else of `backend`. Throws
/// UsageError for what check_text() and check_protocol() refuse, and Interrupted.
std::vector<std::vector<Outcome>> replay_together(std::span<const Unit> units,
                                                  const std::vector<Configuration>& configurations,
                                                  const ReplayOptions& options,
                                                  const Backend& backend,
                                                  const Backend* planning = nullptr);

/// The same for one unit; one outcome per configuration.
std::vector<Outcome> replay(const Unit& unit, const std::vector<Configuration>& configurations,
                            const ReplayOptions& options, const Backend& backend);

/// The context in which a policy is made for its replay on `unit`, number `index` of those that the
/// configuration is for.
Context context_of(const Configuration& configuration, const Unit& unit,
                   const ReplayOptions& options, std::size_t index = 0);

/// The same for a policy that follows no schedule. Keeps references to `unit`.
Context context_of(const Unit& unit, int budget, std::uint64_t seed);

}  // namespace kvsim
