#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "python/engine/bindings.h"
#include "python/engine/request.h"
#include "sim/sweep/shards/sweep_tasks.h"
#include "sim/sweep/shards/work_items.h"
#include "sim/sweep/sweep_jobs.h"

namespace nb = nanobind;

namespace kvsim::python {
namespace {

/// Estimated nanoseconds, rows, and units read together.
using Item = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

/// The number of units of a sweep, and its work items.
std::pair<std::size_t, std::vector<Item>> items_of(const std::vector<Trace>& traces,
                                                   const std::string& policies,
                                                   const std::string& budgets,
                                                   const nb::dict& options) {
  const Options given(options);
  const nb::gil_scoped_release release;
  std::vector<std::string> notes;  // those of the sweep itself
  const SweepPlan plan = plan_sweep(request_of(traces, policies, budgets, given, notes));
  const std::vector<SweepJob> jobs = jobs_of(plan);
  std::vector<Item> items;
  for (const WorkItem& item : work_items(plan, jobs)) {
    std::int64_t rows = 0;
    std::int64_t units = 0;
    for (const std::size_t job : item.jobs) {
      const auto planned = std::count_if(jobs[job].units.begin(), jobs[job].units.end(),
                                         [](const JobUnit& unit) { return unit.planned; });
      rows += planned * static_cast<std::int64_t>(jobs[job].replays.size());
      units += static_cast<std::int64_t>(jobs[job].units.size());
    }
    items.emplace_back(item.nanoseconds, rows, units);
  }
  return {plan.units.size(), std::move(items)};
}

}  // namespace

void bind_scale(nb::module_& module) {
  module.def("work_items", &items_of, nb::arg("traces"), nb::arg("policies"), nb::arg("budgets"),
             nb::arg("options"));
  module.def("tasks_of", &tasks_of, nb::arg("nanoseconds"), nb::arg("each").none() = nb::none());
}

}  // namespace kvsim::python
