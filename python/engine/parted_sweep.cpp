#include "python/engine/parted_sweep.h"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>

#include "gpu/cuda/choose_backend.h"
#include "python/engine/bindings.h"
#include "python/engine/columns.h"
#include "python/engine/run_engine.h"
#include "sim/sweep/cut_amounts.h"
#include "sim/sweep/run_sweep.h"
#include "sim/sweep/sharding.h"
#include "sim/sweep/stored_sweep.h"
#include "sim/sweep/whole_layers.h"

namespace nb = nanobind;

namespace kvsim::python {
namespace {

bool sees_whole_sequence(const Spec& policy, int budget) {
  return needs_measurement(policy.allocation()) ||
         policy.rules({.budget = budget}).scope == Scope::model;
}

SentRow sent(const Outcome& outcome) {
  SentRow row;
  auto& [values, sent_proof, layer_error, intervals] = row;
  for (const Column& column : result_columns()) values.push_back(column.get(outcome.result));
  if (const auto& proof = outcome.proof) {
    sent_proof = {proof->loss, proof->loss_bound, proof->recall_bound};
  }
  if (const auto& error = outcome.layer_error) {
    layer_error = {error->projected_error, error->projected_error_relative, error->predicted_kl,
                   error->num_layers};
  }
  for (const SampledInterval& sampled : outcome.intervals) {
    std::optional<std::pair<double, double>> ends;
    if (const auto& interval = sampled.interval) ends = {interval->low, interval->high};
    intervals.emplace_back(sampled.metric, ends);
  }
  return row;
}

Outcome received(const SentRow& row) {
  Outcome outcome;
  const auto columns = result_columns();
  const auto& [values, proof, layer_error, intervals] = row;
  for (std::size_t i = 0; i < columns.size(); ++i) columns[i].set(outcome.result, values.at(i));
  if (proof) {
    const auto& [loss, loss_bound, recall_bound] = *proof;
    outcome.proof = Proof{loss, loss_bound, recall_bound};
  }
  if (layer_error) {
    const auto& [projected, relative, predicted_kl, num_layers] = *layer_error;
    outcome.layer_error = LayerError{projected, relative, predicted_kl, num_layers};
  }
  for (const auto& [metric, ends] : intervals) {
    SampledInterval& sampled = outcome.intervals.emplace_back();
    sampled.metric = metric;
    if (ends) sampled.interval = {ends->first, ends->second};
  }
  return outcome;
}

/// What a worker does: replays all that the request asks for.
std::vector<SentRow> replay_task(const std::vector<Trace>& traces, const std::string& policies,
                                 const std::string& budgets, const nb::dict& options) {
  const Options given(options);
  std::vector<SentRow> rows;
  run_engine(nb::none(), [&](Work& state) {
    std::vector<std::string> notes;  // the process that made the tasks has told them
    const auto backend = choose_backend(given.device);
    const SweepPlan plan = plan_sweep(request_of(traces, policies, budgets, given, notes));
    run_sweep(plan, *backend, state.interrupted,
              [&](const PlannedUnit&, const std::vector<Outcome>& outcomes) {
                std::ranges::transform(outcomes, std::back_inserter(rows), sent);
              });
  });
  return rows;
}

}  // namespace

PartedSweep::PartedSweep(const std::vector<Trace>& traces, const std::string& policies,
                         const std::string& budgets, const nb::dict& options,
                         const std::optional<std::string>& output, bool force,
                         const std::string& command)
    : store_(output ? ResultStore(*output, ResultStore::Access::write) : ResultStore()) {
  const Options given(options);
  const nb::gil_scoped_release release;
  plan_ = plan_sweep(request_of(traces, policies, budgets, given, notes_));
  if (output) {
    const auto replaced = begin_sweep(
        plan_, store_, labels_of(plan_, command, choose_backend(given.device)->device()), force);
    if (const std::string note = note_of_another_code(replaced); !note.empty()) {
      notes_.push_back(note);
    }
  }
  if (const std::string note = note_of_empty_shard(plan_); !note.empty()) notes_.push_back(note);
  for (const std::string& cut : cut_amounts(plan_)) notes_.push_back(cut);
  if (const std::string note = note_of_cut_layers(plan_); !note.empty()) notes_.push_back(note);
  done_ = plan_.num_replays() - plan_.num_remaining();
  Result row;
  for (const PlannedUnit& unit : plan_.units) {
    for (const PlannedReplay& replay : unit.remaining) {
      describe(plan_, unit, replay, row);
      remaining_.insert(key_of(row));
    }
  }
}

PartedSweep::Key PartedSweep::key_of(const Result& row) {
  return {row.trace_id, row.sequence, row.layer, row.kv_head, row.policy, row.budget};
}

std::vector<SweepTask> PartedSweep::tasks() const {
  std::map<std::tuple<std::size_t, std::string, int>, SweepTask> tasks;
  for (const PlannedUnit& planned : plan_.units) {
    const UnitName& name = planned.unit.name;
    for (const PlannedReplay& replay : planned.remaining) {
      const bool whole = sees_whole_sequence(plan_.policy_of(replay), replay.budget);
      SweepTask& task = tasks[{planned.trace, name.sequence, whole ? -1 : name.layer}];
      task.trace = planned.trace;
      task.sequence = name.sequence;
      task.layers.insert(name.layer);
      task.kv_heads.insert(name.kv_head);
      task.policies.insert(replay.policy);
    }
  }
  std::vector<SweepTask> listed;
  for (auto& [key, task] : tasks) listed.push_back(std::move(task));
  return listed;
}

std::string PartedSweep::specs_of(const SweepTask& task) const {
  std::vector<std::string> specs;
  for (const std::size_t index : task.policies) {
    const Spec& policy = plan_.request.policies[index];
    const std::string label = policy.label().empty() ? "" : policy.label() + '=';
    specs.push_back(label + policy.text());
  }
  return fmt::format("{}", fmt::join(specs, ";"));
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

void PartedSweep::add(const std::vector<SentRow>& rows) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Outcome>> of_units;
  for (const SentRow& row : rows) {
    Outcome outcome = received(row);
    const Result& result = outcome.result;
    if (remaining_.erase(key_of(result)) == 0) continue;
    of_units[{result.layer, result.kv_head}].push_back(std::move(outcome));
    ++done_;
  }
  for (const auto& [unit, outcomes] : of_units) store_unit(outcomes, store_);
}

nb::dict PartedSweep::columns() const {
  const std::vector<Result> rows = rows_of_sweep(plan_, store_);
  return columns_of(rows);
}

void bind_parted_sweep(nb::module_& module) {
  nb::class_<SweepTask>(module, "SweepTask")
      .def_ro("trace", &SweepTask::trace)
      .def_ro("sequence", &SweepTask::sequence)
      .def_ro("layers", &SweepTask::layers)
      .def_ro("kv_heads", &SweepTask::kv_heads);
  nb::class_<PartedSweep>(module, "PartedSweep")
      .def(nb::init<const std::vector<Trace>&, const std::string&, const std::string&,
                    const nb::dict&, const std::optional<std::string>&, bool, const std::string&>(),
           nb::arg("traces"), nb::arg("policies"), nb::arg("budgets"), nb::arg("options"),
           nb::arg("output").none(), nb::arg("force"), nb::arg("command"))
      .def("tasks", &PartedSweep::tasks)
      .def("specs_of", &PartedSweep::specs_of, nb::arg("task"))
      .def("policies_of", &PartedSweep::policies_of, nb::arg("origin"))
      .def("origins", &PartedSweep::origins)
      .def("add", &PartedSweep::add, nb::arg("rows"))
      .def("finish", &PartedSweep::finish)
      .def("total", &PartedSweep::total)
      .def("done", &PartedSweep::done)
      .def("notes", &PartedSweep::notes)
      .def("columns", &PartedSweep::columns);
  module.def("replay_task", &replay_task, nb::arg("traces"), nb::arg("policies"),
             nb::arg("budgets"), nb::arg("options"));
}

}  // namespace kvsim::python
