#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/engine/request.h"
#include "python/engine/sent_rows.h"
#include "sim/sweep/shards/sweep_part.h"
#include "sim/sweep/shards/work_items.h"
#include "sim/sweep/sweep_output.h"

namespace kvsim::python {

/// What one worker does.
struct SweepTask {
  std::vector<std::size_t> items;  ///< indices into the sweep's work items
  double seconds = 0;              ///< estimated, on one core
};

/// A sweep whose units are replayed elsewhere: what there is to do, and what came of it.
class PartedSweep {
 public:
  /// As kvsim::python::sweep(): plans, and begins a run in `output`. Needs the GIL.
  PartedSweep(const std::vector<Trace>& traces, const Lists& policies, const Lists& budgets,
              const nanobind::dict& options, const std::optional<std::string>& output, bool force,
              const std::string& command);

  ~PartedSweep() { close(); }

  /// What remains, by tasks_of(); `each` in seconds.
  std::vector<SweepTask> tasks(const std::optional<double>& each) const;

  /// The same work with an item per task.
  std::vector<SweepTask> items_of(const SweepTask& task) const;

  /// The parts of a task, as a worker takes them.
  std::vector<SweepPart> parts_of(const SweepTask& task) const;

  /// All specs as a worker takes them, with their labels and splits.
  std::vector<std::string> specs() const;

  /// The names of the policies that come from `origin` (PolicyInfo::origin).
  std::vector<std::string> policies_of(const std::string& origin) const;

  /// Where policies come from that are not built in: files, or "Python".
  std::vector<std::string> origins() const;

  /// Stores what workers have replayed, all at once, except of items that are stored already.
  /// Throws what SweepOutput::add() throws, and std::runtime_error if a task has not sent its rows;
  /// the other tasks are stored then.
  void add(const std::vector<std::pair<SweepTask, std::vector<SentRow>>>& done);

  /// Says in `output` that all was done.
  void finish() { output_->finish(); }

  /// Lets go of `output`; brings rows on a local disk to their place. After it there are no rows.
  void close();

  std::size_t total() const { return plan_.num_replays(); }
  std::size_t done() const { return done_; }
  const std::vector<std::string>& notes() const { return notes_; }
  nanobind::dict columns() const;

 private:
  std::vector<Outcome> outcomes_of(const SweepTask& task, const std::vector<SentRow>& rows) const;
  SweepTask task_of(std::vector<std::size_t> items) const;

  SweepPlan plan_;
  std::vector<SweepJob> jobs_;
  std::vector<WorkItem> items_;
  std::optional<SweepOutput> output_;  // none after close()
  std::vector<std::string> notes_;
  std::vector<bool> is_stored_;               // parallel to items_
  std::map<std::string, std::string> files_;  // of traces, by their ids
  std::size_t done_ = 0;
};

}  // namespace kvsim::python
