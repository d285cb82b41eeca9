#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "python/engine/request.h"
#include "sim/results/store.h"

namespace kvsim::python {

/// The members of a Proof.
using SentProof = std::tuple<double, double, std::optional<double>>;

/// The members of a LayerError.
using SentLayerError =
    std::tuple<std::optional<double>, std::optional<double>, std::optional<double>, int>;

/// The members of a SampledInterval.
using SentInterval = std::pair<std::string, std::optional<std::pair<double, double>>>;

/// A row of the table `replay`, its values parallel to result_columns(), what its oracle proves,
/// the errors of its layer and its intervals, as processes send them to each other.
using SentRow = std::tuple<std::vector<Value>, std::optional<SentProof>,
                           std::optional<SentLayerError>, std::vector<SentInterval>>;

/// Units of one sequence that one worker replays together, as options of a sweep.
struct SweepTask {
  std::size_t trace = 0;  ///< index into the traces
  std::string sequence;
  std::set<int> layers;
  std::set<int> kv_heads;
  std::set<std::size_t> policies;  ///< indices into the request's policies
};

/// A sweep whose units are replayed elsewhere: what there is to do, and what came of it.
class PartedSweep {
 public:
  /// As kvsim::python::sweep(): plans, and begins a run in `output`. Needs the GIL.
  PartedSweep(const std::vector<Trace>& traces, const std::string& policies,
              const std::string& budgets, const nanobind::dict& options,
              const std::optional<std::string>& output, bool force, const std::string& command);

  /// What remains: a layer per task, or a sequence if a policy or an allocation sees more.
  std::vector<SweepTask> tasks() const;

  /// The specs of a task as a worker takes them, separated by ';', with their labels and splits.
  std::string specs_of(const SweepTask& task) const;

  /// The names of the policies that come from `origin` (PolicyInfo::origin).
  std::vector<std::string> policies_of(const std::string& origin) const;

  /// Where policies come from that are not built in: files, or "Python".
  std::vector<std::string> origins() const;

  /// Stores what a worker has replayed, and what the plan lacks of it.
  void add(const std::vector<SentRow>& rows);

  /// Says in `output` that all was done.
  void finish() { store_.finish_run(); }

  std::size_t total() const { return plan_.num_replays(); }
  std::size_t done() const { return done_; }
  const std::vector<std::string>& notes() const { return notes_; }
  nanobind::dict columns() const;

 private:
  using Key =
      std::tuple<std::string, std::string, std::int64_t, std::int64_t, std::string, std::int64_t>;

  static Key key_of(const Result& row);

  SweepPlan plan_;
  ResultStore store_;
  std::vector<std::string> notes_;
  std::set<Key> remaining_;
  std::size_t done_ = 0;
};

}  // namespace kvsim::python
