#include "sim/replay/replay.h"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpu/cuda/choose_backend.h"
#include "python/engine/arrays.h"
#include "python/engine/bindings.h"
#include "python/engine/columns.h"
#include "python/engine/request.h"
#include "python/engine/run_engine.h"
#include "sim/base/errors.h"
#include "sim/sweep/cut_amounts.h"
#include "sim/sweep/run_sweep.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

/// An array, or None if it is empty.
nb::object matrix_or_none(Matrix matrix) {
  return matrix.size() == 0 ? nb::none() : array_of(std::move(matrix));
}

/// A dict of (low, high) or None by column, or None if nothing was sampled.
nb::object dict_or_none(const std::vector<SampledInterval>& intervals) {
  if (intervals.empty()) return nb::none();
  nb::dict by_column;
  for (const SampledInterval& sampled : intervals) {
    const auto& interval = sampled.interval;
    by_column[sampled.metric.c_str()] =
        interval ? nb::object(nb::make_tuple(interval->low, interval->high)) : nb::none();
  }
  return by_column;
}

/// (fields of kvsim.Replay with the row as columns of the table `replay`, notes for the user). The
/// options select one unit.
nb::tuple replay_one(const Trace& trace, const Lists& policy, const Lists& budget,
                     const nb::dict& options, const nb::object& progress) {
  const Options given(options);
  std::vector<std::string> notes;
  std::vector<Outcome> found;
  run_engine(progress, [&](Work& state) {
    const auto backend = choose_backend(given.device);
    SweepRequest request = request_of({trace}, {}, {}, given, notes);
    PolicyList list = policies_in(policy, allocation_of(given.request));
    notes = std::move(list.notes);
    request.policies = std::move(list.policies);
    if (request.policies.size() > 1) {
      throw UsageError(
          fmt::format("policy: expected one, found {}; use kvsim.sweep", request.policies.size()));
    }
    request.budgets = parse_budgets(budget);
    if (request.budgets.size() > 1) throw UsageError("budget: expected one; use kvsim.sweep");
    request.trajectories = true;
    const SweepPlan plan = plan_sweep(std::move(request));
    for (const std::string& cut : cut_amounts(plan)) notes.push_back(cut);
    state.total = plan.num_replays();
    run_sweep(plan, *backend, state.interrupted,
              [&](const PlannedUnit&, std::vector<Outcome> outcomes) {
                found = std::move(outcomes);
                state.done = found.size();
              });
  });
  Outcome& outcome = found.at(0);
  nb::dict fields;
  fields["row"] = columns_of({&outcome.result, 1});
  fields["evicted_after"] = array_of(std::move(outcome.trajectory.evicted_after));
  fields["attention_recall"] = matrix_or_none(std::move(outcome.trajectory.attention_recall));
  fields["output_error"] = matrix_or_none(std::move(outcome.trajectory.output_error));
  fields["slot_price"] = array_or_none(std::move(outcome.trajectory.slot_price));
  fields["recall_bound"] = nb::cast(outcome.proof ? outcome.proof->recall_bound : std::nullopt);
  fields["intervals"] = dict_or_none(outcome.intervals);
  return nb::make_tuple(fields, nb::cast(notes));
}

}  // namespace

void bind_replay(nb::module_& module) {
  module.def("replay", &replay_one, "trace"_a, "policy"_a, "budget"_a, "options"_a,
             "progress"_a.none());
}

}  // namespace kvsim::python
