#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "policies/amount.h"
#include "policies/spec.h"
#include "sim/core/replay.h"
#include "sim/core/selection.h"
#include "sim/core/store.h"

namespace kvsim {

/// Policies times budgets over the selected units of some traces. A single replay is a sweep of one
/// policy and one budget.
struct SweepRequest {
  std::vector<std::filesystem::path> traces;
  std::vector<Spec> policies;
  std::vector<Amount> budgets;  ///< shares are of the sequence in stream mode, else of the prompt
  Selection selection;
  Mode mode = Mode::stream;
  std::int64_t seed = 0;
  int threads = 1;
  bool trajectories = false;
  Measuring measuring = {};
};

/// One policy at one budget, with how the budget was asked for.
struct PlannedReplay {
  std::size_t policy = 0;  ///< index into the request's policies
  int budget = 1;
  std::string budget_request;
};

/// One unit and what there is to replay on it. Equal budgets asked for twice are replayed once.
struct PlannedUnit {
  std::size_t trace = 0;  ///< index into the plan's traces
  SelectedUnit unit;
  std::vector<PlannedReplay> replays;    ///< all that the request asks for
  std::vector<PlannedReplay> remaining;  ///< those that the result file does not have
};

struct SweepPlan {
  SweepRequest request;
  std::vector<Trace> traces;
  std::vector<PlannedUnit> units;

  std::size_t num_replays() const;
  std::size_t num_remaining() const;
  /// How often run_sweep() will report a unit: once for the policies that decide for a head alone,
  /// once more for those that decide for a layer, and for all layers.
  std::size_t num_reports() const;
  /// An estimate of the memory that running it takes, in bytes.
  std::size_t memory_bytes() const;
};

/// As many threads as OpenMP would use: OMP_NUM_THREADS, or one per core.
int default_threads();

/// Opens the traces and lists the work. A trace that is named twice is replayed once. Throws
/// UsageError for a request without a policy or a budget, that selects what is not there, splits a
/// budget over heads that share a cache or needs the reference it leaves out; DataError for a trace
/// that lacks what a policy needs.
SweepPlan plan_sweep(SweepRequest request);

/// Leaves out of what remains what `store` has already.
void skip_finished(SweepPlan& plan, const ResultStore& store);

/// The tokens that a share of the budget is a share of.
int budget_base(const SelectedUnit& unit, Mode mode);

/// Fills in what is known of a row beforehand: all but the measurements and the device.
void describe(const SweepPlan& plan, const PlannedUnit& unit, const PlannedReplay& replay,
              Result& result);

/// The policies of the plan that the back-end's device does not replay by itself, so that the CPU
/// does; none if the back-end is the CPU.
std::vector<std::string> left_to_cpu(const SweepPlan& plan, const Backend& backend);

/// Called with outcomes of one unit as soon as they are there, by one thread at a time.
using UnitFinished = std::function<void(const PlannedUnit&, std::vector<Outcome>)>;

/// Replays what remains, units in parallel. After a failure or an interruption no further unit is
/// begun; those that were finished have been reported. Then throws: the failure of the first such
/// unit in the plan's order, or Interrupted.
void run_sweep(const SweepPlan& plan, const Backend& backend, const std::atomic<bool>& interrupted,
               const UnitFinished& finished);

}  // namespace kvsim
