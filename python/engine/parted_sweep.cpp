#include "python/engine/parted_sweep.h"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <set>
#include <stdexcept>
#include <tuple>

#include "gpu/cuda/choose_backend.h"
#include "python/engine/bindings.h"
#include "python/engine/columns.h"
#include "sim/sweep/shards/sweep_tasks.h"

namespace nb = nanobind;

namespace kvsim::python {
namespace {

double seconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }

/// Per part (trace, sequence, units), per unit (layer, KV head, ((index of the policy, budget),
/// ...)). What units have in common is one object, which a pickle holds once.
nb::list listed(const std::vector<SweepPart>& parts) {
  std::map<std::vector<std::pair<std::size_t, int>>, nb::object> shared;
  nb::list found;
  for (const SweepPart& part : parts) {
    nb::list units;
    for (const PartUnit& unit : part.units) {
      nb::object& replays = shared[unit.replays];
      if (!replays.is_valid()) replays = nb::tuple(nb::cast(unit.replays));
      units.append(nb::make_tuple(unit.layer, unit.kv_head, replays));
    }
    found.append(nb::make_tuple(part.trace, part.sequence, units));
  }
  return found;
}

}  // namespace

PartedSweep::PartedSweep(const std::vector<Trace>& traces, const Lists& policies,
                         const Lists& budgets, const nb::dict& options,
                         const std::optional<std::string>& output, bool force,
                         const std::string& command) {
  const Options given(options);
  const nb::gil_scoped_release release;
  plan_ = plan_sweep(request_of(traces, policies, budgets, given, notes_));
  // The device that a file names; workers may have one that this machine lacks.
  const std::string device = output ? choose_backend(given.device)->device() : "";
  output_.emplace(plan_, output_of(output, command, given), device, force);
  notes_.insert(notes_.end(), output_->notes().begin(), output_->notes().end());
  done_ = plan_.num_replays() - plan_.num_remaining();
  jobs_ = jobs_of(plan_);
  items_ = work_items(plan_, jobs_);
  is_stored_.resize(items_.size());
  for (const Trace& trace : plan_.traces) files_[trace.id()] = trace.file().string();
}

SweepTask PartedSweep::task_of(std::vector<std::size_t> items) const {
  SweepTask task{.items = std::move(items)};
  for (const std::size_t item : task.items) task.seconds += seconds(items_[item].nanoseconds);
  return task;
}

std::vector<SweepTask> PartedSweep::tasks(const std::optional<double>& each) const {
  std::vector<std::int64_t> costs;
  for (const WorkItem& item : items_) costs.push_back(item.nanoseconds);
  std::optional<std::int64_t> in_nanoseconds;
  if (each) in_nanoseconds = std::llround(1e9 * *each);
  std::vector<SweepTask> tasks;
  for (std::vector<std::size_t>& items : tasks_of(costs, in_nanoseconds)) {
    tasks.push_back(task_of(std::move(items)));
  }
  return tasks;
}

std::vector<SweepTask> PartedSweep::items_of(const SweepTask& task) const {
  std::vector<SweepTask> tasks;
  for (const std::size_t item : task.items) tasks.push_back(task_of({item}));
  return tasks;
}

std::vector<SweepPart> PartedSweep::parts_of(const SweepTask& task) const {
  std::vector<std::size_t> jobs;
  for (const std::size_t item : task.items) {
    jobs.insert(jobs.end(), items_[item].jobs.begin(), items_[item].jobs.end());
  }
  return kvsim::parts_of(plan_, jobs_, jobs);
}

std::vector<std::string> PartedSweep::specs() const {
  std::vector<std::string> specs;
  for (const Spec& policy : plan_.request.policies) {
    const std::string label = policy.label().empty() ? "" : policy.label() + '=';
    specs.push_back(label + policy.text());
  }
  return specs;
}

std::vector<std::string> PartedSweep::policies_of(const std::string& origin) const {
  std::set<std::string> names;
  for (const Spec& policy : plan_.request.policies) {
    if (policy.policy().origin == origin) names.insert(policy.policy().name);
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> PartedSweep::origins() const {
  std::set<std::string> origins;
  for (const Spec& policy : plan_.request.policies) {
    if (!policy.policy().origin.empty()) origins.insert(policy.policy().origin);
  }
  return {origins.begin(), origins.end()};
}

std::vector<Outcome> PartedSweep::outcomes_of(const SweepTask& task,
                                              const std::vector<SentRow>& rows) const {
  std::size_t expected = 0;
  for (const SweepPart& part : parts_of(task)) {
    for (const PartUnit& unit : part.units) expected += unit.replays.size();
  }
  if (rows.size() != expected) {
    fail_to_receive(fmt::format("expected {} rows of a task, found {}", expected, rows.size()));
  }
  std::vector<Outcome> outcomes;
  for (const SentRow& row : rows) {
    Result& result = outcomes.emplace_back(received(row)).result;
    const auto file = files_.find(result.trace_id);
    if (file == files_.end()) {
      fail_to_receive(
          fmt::format("expected rows of the sweep's traces, found trace {}", result.trace_id));
    }
    result.trace = file->second;  // a worker may know the file by another path
  }
  return outcomes;
}

void PartedSweep::add(const std::vector<std::pair<SweepTask, std::vector<SentRow>>>& done) {
  using Unit = std::tuple<std::string, std::string, std::int64_t, std::int64_t>;
  std::map<Unit, std::vector<Outcome>> of_units;
  std::exception_ptr failed;
  for (const auto& [task, rows] : done) {
    const auto is_stored = [&](std::size_t item) { return is_stored_[item]; };
    if (std::ranges::any_of(task.items, is_stored)) continue;
    try {
      for (Outcome& outcome : outcomes_of(task, rows)) {
        const Result& row = outcome.result;
        of_units[{row.trace_id, row.sequence, row.layer, row.kv_head}].push_back(
            std::move(outcome));
      }
      for (const std::size_t item : task.items) is_stored_[item] = true;
      done_ += rows.size();
    } catch (const std::runtime_error&) {
      if (!failed) failed = std::current_exception();
    }
  }
  std::vector<std::vector<Outcome>> units;
  for (auto& [unit, outcomes] : of_units) units.push_back(std::move(outcomes));
  output_->add(units);
  if (failed) std::rethrow_exception(failed);
}

void PartedSweep::close() {
  const nb::gil_scoped_release release;
  output_.reset();
}

nb::dict PartedSweep::columns() const {
  const std::vector<Result> rows = output_->rows(plan_);
  return columns_of(rows);
}

void bind_parted_sweep(nb::module_& module) {
  nb::class_<SweepTask>(module, "SweepTask")
      .def_ro("items", &SweepTask::items)
      .def_ro("seconds", &SweepTask::seconds);
  nb::class_<PartedSweep>(module, "PartedSweep")
      .def(nb::init<const std::vector<Trace>&, const Lists&, const Lists&, const nb::dict&,
                    const std::optional<std::string>&, bool, const std::string&>(),
           nb::arg("traces"), nb::arg("policies"), nb::arg("budgets"), nb::arg("options"),
           nb::arg("output").none(), nb::arg("force"), nb::arg("command"))
      .def("tasks", &PartedSweep::tasks, nb::arg("each").none() = nb::none())
      .def("items_of", &PartedSweep::items_of, nb::arg("task"))
      .def(
          "parts_of",
          [](const PartedSweep& sweep, const SweepTask& task) {
            return listed(sweep.parts_of(task));
          },
          nb::arg("task"))
      .def("specs", &PartedSweep::specs)
      .def("policies_of", &PartedSweep::policies_of, nb::arg("origin"))
      .def("origins", &PartedSweep::origins)
      .def("add", &PartedSweep::add, nb::arg("done"), nb::call_guard<nb::gil_scoped_release>())
      .def("finish", &PartedSweep::finish, nb::call_guard<nb::gil_scoped_release>())
      .def("close", &PartedSweep::close)
      .def("total", &PartedSweep::total)
      .def("done", &PartedSweep::done)
      .def("notes", &PartedSweep::notes)
      .def("columns", &PartedSweep::columns);
}

}  // namespace kvsim::python
