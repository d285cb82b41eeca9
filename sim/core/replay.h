#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "policies/spec.h"
#include "sim/core/attention.h"
#include "sim/core/measuring.h"
#include "sim/core/result.h"

namespace kvsim {

enum class Mode {
  stream,  ///< every step evicts; every step is measured
  prefill  ///< the prompt attends in full, then evicts once; the steps after it are measured
};

/// One policy at one budget.
struct Configuration {
  Spec policy;
  int budget = 1;                 ///< tokens per KV head
  std::vector<int> budgets = {};  ///< per unit; empty: `budget` for each

  /// Per unit, for a policy that follows a schedule: see Context.
  std::vector<std::vector<std::int32_t>> schedules = {};

  int budget_of(std::size_t unit) const { return budgets.empty() ? budget : budgets[unit]; }
};

struct ReplayOptions {
  Mode mode = Mode::stream;
  std::uint64_t seed = 0;  ///< the user's; each unit derives its own from it and its name
  bool trajectories = false;
  Measuring measuring = {};
  const std::atomic<bool>* interrupted = nullptr;  ///< checked now and then; true ends the replay
};

/// What happened step by step. Rows are the unit's query heads, columns the measured steps.
struct Trajectory {
  std::vector<std::int32_t> evicted_after;  ///< per token: the step after which it left; n: never
  Matrix attention_recall;                  ///< without a reference empty
  Matrix output_error;                      ///< the same; NaN where it was not taken
  std::vector<double> slot_price;           ///< an oracle's, see Plan; may be empty
};

struct Outcome {
  Result result;          ///< the measured columns; the caller knows the others
  Trajectory trajectory;  ///< empty unless asked for

  /// A proven upper bound of every policy's attention_recall, from an oracle that gives one.
  std::optional<double> recall_bound;
};

/// Thrown by replay() when it was interrupted.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Replays units of one sequence through every configuration. The full attention, if there is a
/// reference, is computed once, block by block, and shared by all. A policy whose scope is a layer
/// or the model decides for all units given, which are those of one layer or of several, ordered by
/// layer; one whose scope is a head, for each alone. Outcomes are per configuration and unit.
/// Oracles plan with the attention of `planning`, if that is not null, else of `backend`. Throws
/// UsageError for what check_mode() and check_reference() refuse.
std::vector<std::vector<Outcome>> replay_together(std::span<const Unit> units,
                                                  const std::vector<Configuration>& configurations,
                                                  const ReplayOptions& options,
                                                  const Backend& backend,
                                                  const Backend* planning = nullptr);

/// The same for one unit; outcomes are per configuration.
std::vector<Outcome> replay(const Unit& unit, const std::vector<Configuration>& configurations,
                            const ReplayOptions& options, const Backend& backend);

/// What a policy is told about its replay on `unit`.
Context context_of(const Configuration& configuration, const Unit& unit,
                   const ReplayOptions& options);

/// Throws UsageError if the mode is prefill and the unit has no prompt or nothing after it.
void check_mode(const std::string& sequence, int num_tokens, int prompt_length, Mode mode);

/// The seed of a unit's random choices.
std::uint64_t unit_seed(std::uint64_t seed, const UnitName& unit);

/// "stream" or "prefill", and behind it what is measured otherwise than by default:
/// "stream:every=10", "prefill:reference=none".
std::string mode_name(Mode mode, const Measuring& measuring = {});

}  // namespace kvsim
