#include "sim/sweep/shards/sweep_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "sim/base/errors.h"

namespace kvsim {
namespace {

using Chosen = std::pair<std::size_t, int>;  // the index of a policy, and a budget

Chosen chosen(const PlannedReplay& replay) { return {replay.policy, replay.budget}; }

/// Of the selected heads those that these layers have: a layer may lack one.
void keep_recorded_heads(Selection& selection, const Trace& trace) {
  std::set<int> recorded;
  for (const SequenceInfo& sequence : trace.sequences()) {
    if (sequence.name != selection.sequences.front()) continue;
    for (const LayerInfo& layer : sequence.layers) {
      if (std::ranges::count(selection.layers, layer.index) == 0) continue;
      recorded.insert(layer.kv_heads.begin(), layer.kv_heads.end());
    }
  }
  std::erase_if(selection.kv_heads, [&](int head) { return !recorded.contains(head); });
}

}  // namespace

std::vector<SweepPart> parts_of(const SweepPlan& plan, const std::vector<SweepJob>& all,
                                std::span<const std::size_t> jobs) {
  // By their indices units are in the order of traces, sequences, layers and heads.
  std::map<std::size_t, std::set<Chosen>> of_units;
  for (const std::size_t job : jobs) {
    for (const JobUnit& unit : all[job].units) {
      if (!unit.planned) continue;
      for (const PlannedReplay& replay : all[job].replays) {
        of_units[*unit.planned].insert(chosen(replay));
      }
    }
  }
  std::vector<SweepPart> parts;
  for (const auto& [index, replays] : of_units) {
    const PlannedUnit& planned = plan.units[index];
    const UnitName& name = planned.unit.name;
    if (parts.empty() || parts.back().trace != planned.trace ||
        parts.back().sequence != name.sequence) {
      parts.push_back({planned.trace, name.sequence, {}});
    }
    PartUnit& unit = parts.back().units.emplace_back(PartUnit{name.layer, name.kv_head, {}});
    for (const PlannedReplay& replay : planned.remaining) {
      if (replays.contains(chosen(replay))) unit.replays.push_back(chosen(replay));
    }
  }
  return parts;
}

SweepPlan plan_part(SweepRequest request, const SweepPart& part) {
  std::set<int> layers;
  std::map<std::pair<int, int>, std::set<Chosen>> of_units;
  for (const PartUnit& unit : part.units) {
    layers.insert(unit.layer);
    of_units[{unit.layer, unit.kv_head}].insert(unit.replays.begin(), unit.replays.end());
  }
  // All heads of these layers stay in the plan: it knows by them which layers it measures whole.
  request.selection.sequences = {part.sequence};
  request.selection.layers = {layers.begin(), layers.end()};
  keep_recorded_heads(request.selection, request.open_traces.front());
  request.shard = {};
  SweepPlan plan = plan_sweep(std::move(request));
  for (PlannedUnit& planned : plan.units) {
    std::set<Chosen>& replays = of_units[{planned.unit.name.layer, planned.unit.name.kv_head}];
    std::erase_if(planned.remaining,
                  [&](const PlannedReplay& replay) { return replays.erase(chosen(replay)) == 0; });
  }
  for (const auto& [unit, missing] : of_units) {
    if (missing.empty()) continue;
    throw DataError(fmt::format(
        "{}: sequence '{}', layer {}, KV head {}: expected a replay by policy {} at budget {}, as "
        "planned, found none; do all processes run the same kvsim?",
        plan.traces.front().file().string(), part.sequence, unit.first, unit.second,
        missing.begin()->first, missing.begin()->second));
  }
  return plan;
}

}  // namespace kvsim
