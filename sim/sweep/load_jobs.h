#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "sim/results/schedule_file.h"
#include "sim/results/score_file.h"
#include "sim/sweep/allocate.h"
#include "sim/sweep/replay_jobs.h"
#include "sim/sweep/split_tables.h"
#include "sim/sweep/sweep_jobs.h"

namespace kvsim {

/// Turns a SweepJob into a ReplayJob: reads the units, splits budgets by the allocation, and reads
/// schedules and scores.
class JobLoader {
 public:
  /// Opens schedules and scores, reads the files of allocations, and measures the units that the
  /// allocations of these jobs depend on, in parallel. `plan` has to outlive the object. Throws
  /// DataError for a unit or a file of schedules or budgets that cannot be read, and Interrupted.
  JobLoader(const SweepPlan& plan, std::span<const SweepJob> jobs, const Backend& backend,
            const std::atomic<bool>& interrupted);

  /// May be called by several threads at once. Throws DataError for a unit, a schedule or scores
  /// that cannot be read.
  ReplayJob load(const SweepJob& job) const;

 private:
  using SequenceKey = std::pair<std::size_t, std::string>;  // trace, sequence

  static SequenceKey sequence_of(const SweepJob& job);
  Configuration configuration_of(const SweepJob& job, const PlannedReplay& replay,
                                 const std::vector<Unit>& units) const;
  std::vector<int> budgets_of(const SweepJob& job, const PlannedReplay& replay,
                              const Unit& unit) const;

  const SweepPlan& plan_;
  // Of sequences whose budgets are split.
  std::map<SequenceKey, std::vector<UnitProfile>> profiles_;
  // By sequence and path, fitted to the sequence's model.
  std::map<std::pair<SequenceKey, std::string>, HeadTable> tables_;
  // By path. Opened once, before threads work: each is read by a child process first.
  std::map<std::string, std::unique_ptr<const ScheduleFile>> schedules_;
  std::map<std::string, std::unique_ptr<const ScoreFile>> scores_;
};

}  // namespace kvsim
