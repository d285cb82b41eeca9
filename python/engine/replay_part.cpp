#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "gpu/cuda/choose_backend.h"
#include "python/engine/bindings.h"
#include "python/engine/request.h"
#include "python/engine/run_engine.h"
#include "python/engine/sent_rows.h"
#include "sim/sweep/run_sweep.h"
#include "sim/sweep/shards/sweep_part.h"

namespace nb = nanobind;

namespace kvsim::python {
namespace {

/// A PartUnit as PartedSweep.parts_of() lists it.
using ListedUnit = std::tuple<int, int, std::vector<std::pair<std::size_t, int>>>;

/// What a worker does of one sequence. `policies` and `budgets` are those of the whole sweep.
std::vector<SentRow> replay_part(const Trace& trace, const std::string& sequence,
                                 const std::vector<ListedUnit>& units, const Lists& policies,
                                 const Lists& budgets, const nb::dict& options) {
  const Options given(options);
  SweepPart part{.sequence = sequence};
  for (const auto& [layer, kv_head, replays] : units) {
    part.units.push_back({layer, kv_head, replays});
  }
  std::vector<SentRow> rows;
  run_engine(nb::none(), [&](Work& state) {
    std::vector<std::string> notes;  // the process that made the tasks has given them
    const auto backend = choose_backend(given.device);
    const SweepPlan plan = plan_part(request_of({trace}, policies, budgets, given, notes), part);
    run_sweep(plan, *backend, state.interrupted,
              [&](const PlannedUnit&, const std::vector<Outcome>& outcomes) {
                std::ranges::transform(outcomes, std::back_inserter(rows), sent);
              });
  });
  return rows;
}

}  // namespace

void bind_replay_part(nb::module_& module) {
  module.def("replay_part", &replay_part, nb::arg("trace"), nb::arg("sequence"), nb::arg("units"),
             nb::arg("policies"), nb::arg("budgets"), nb::arg("options"));
}

}  // namespace kvsim::python
