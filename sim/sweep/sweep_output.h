#pragma once

#include <string>
#include <vector>

#include "sim/results/sinks/memory_results.h"
#include "sim/results/sinks/output.h"
#include "sim/results/store.h"
#include "sim/sweep/sweep_plan.h"

namespace kvsim {

/// Takes the rows of a sweep, whoever replays it: into a result file, or into memory.
class SweepOutput {
 public:
  /// With a result file: removes from the plan what the file holds already (begin_sweep()), and
  /// begins a run there. Throws what that and ResultStore throw.
  SweepOutput(SweepPlan& plan, const Output& output, std::string device, bool force = false);

  /// Adds the rows of units: store_units().
  void add(const std::vector<std::vector<Outcome>>& units);

  /// Says in the file that it holds all that was asked for.
  void finish();

  /// Brings the rows of the result file to their place before the end, and returns the file that
  /// has them.
  std::filesystem::path keep() { return store_->keep(); }

  /// The result file, if there is one.
  const ResultStore& file() const { return *store_; }

  /// The rows of all replays of the plan, those included that the file held before, ordered by key.
  std::vector<Result> rows(const SweepPlan& plan) const;

  /// What the user should know of the plan and of the file, a sentence each.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::unique_ptr<ResultStore> store_;  // null: in memory
  MemoryResults memory_;
  std::vector<std::string> notes_;
};

}  // namespace kvsim
