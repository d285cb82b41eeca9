#include "analysis/analysis_needs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "sim/base/errors.h"
#include "sim/replay/answer_steps.h"

namespace kvsim {
namespace {

bool is_recorded(const Trace& trace, const UnitName& name, const DatasetInfo& dataset) {
  return dataset.level == Level::sequence ? sequence_info(trace, name).has_token_ids
                                          : layer_info(trace, name).has(dataset.id);
}

/// What a layer adds to the residual stream is not known of a unit whose cache others read, too.
void check_shared_cache(const AnalysisInfo& info, const SweepPlan& plan, const PlannedUnit& unit) {
  const Trace& trace = plan.traces[unit.trace];
  const LayerInfo& layer = layer_info(trace, unit.unit.name);
  const bool sees_stream =
      info.needs_stream || std::ranges::any_of(info.needs, [](Dataset needed) {
        return needed == Dataset::residual || needed == Dataset::output_projection;
      });
  if (layer.readers.empty() || !sees_stream) return;
  throw DataError(fmt::format(
      "{}: /sequences/{}/layers/{}: expected a layer whose cache no other one reads, which the "
      "analysis {} needs, found that layer {} does; leave the layer or the analysis out",
      trace.file().string(), unit.unit.name.sequence, layer.index, info.name,
      layer.readers.front()));
}

void check_datasets(const AnalysisInfo& info, const SweepPlan& plan) {
  for (const PlannedUnit& unit : plan.units) {
    const Trace& trace = plan.traces[unit.trace];
    const UnitName& name = unit.unit.name;
    check_shared_cache(info, plan, unit);
    for (const Dataset needed : info.needs) {
      const DatasetInfo& dataset = info_of(needed);
      if (is_recorded(trace, name, dataset)) continue;
      throw DataError(
          fmt::format("{}: {}: expected {}, which the analysis {} needs, found nothing; {}, or "
                      "leave the analysis out",
                      trace.file().string(), path_of(dataset, name.sequence, name.layer),
                      dataset.title, info.name, dataset.cure));
    }
  }
}

void check_spans(const AnalysisInfo& info, const SweepPlan& plan) {
  if (!info.needs_spans) return;
  for (const PlannedUnit& unit : plan.units) {
    const Trace& trace = plan.traces[unit.trace];
    const SequenceInfo& sequence = sequence_info(trace, unit.unit.name);
    const auto refuse = [&](std::string_view expected, std::string_view found) {
      throw DataError(fmt::format(
          "{}: /sequences/{}/spans: expected {}, which the analysis {} needs, found {}; record "
          "texts in which needles and answers are marked, or leave the analysis out",
          trace.file().string(), sequence.name, expected, info.name, found));
    };
    const bool has_needle = std::any_of(sequence.spans.begin(), sequence.spans.end(),
                                        [](const Span& span) { return span.label == "needle"; });
    if (!has_needle) refuse("a span labelled needle", "none");
    const int first = plan.request.protocol.first_measured(sequence.prompt_length);
    if (answer_steps(sequence.spans, first).empty()) {
      refuse("a span labelled answer that a measured step predicts", "none");
    }
  }
}

/// The rows of a layer stand at one unit, which has to be among those of the plan.
void check_layers(const AnalysisInfo& info, const SweepPlan& plan) {
  if (!info.of_layer) return;
  using Layer = std::tuple<std::size_t, std::string, int>;
  std::set<Layer> found;
  for (const PlannedUnit& unit : plan.units) {
    const UnitName& name = unit.unit.name;
    if (stands_for_layer(plan.traces[unit.trace], name)) {
      found.emplace(unit.trace, name.sequence, name.layer);
    }
  }
  for (const PlannedUnit& unit : plan.units) {
    const UnitName& name = unit.unit.name;
    if (found.contains({unit.trace, name.sequence, name.layer})) continue;
    throw UsageError(fmt::format(
        "analysis {}: layer {} of sequence {} has its row at KV head {}; expected it among "
        "--heads, or no --heads",
        info.name, name.layer, name.sequence,
        layer_info(plan.traces[unit.trace], name).kv_heads.front()));
  }
}

/// A row of a whole layer needs all its heads among those of the plan.
void check_whole_layers(const AnalysisInfo& info, const SweepPlan& plan) {
  if (!info.spans_heads) return;
  using Layer = std::tuple<std::size_t, std::string, int>;
  std::map<Layer, int> heads;
  for (const PlannedUnit& unit : plan.units) {
    ++heads[{unit.trace, unit.unit.name.sequence, unit.unit.name.layer}];
  }
  for (const PlannedUnit& unit : plan.units) {
    const UnitName& name = unit.unit.name;
    const int found = heads.at({unit.trace, name.sequence, name.layer});
    const int expected = unit.unit.shape.num_kv_heads;
    if (found == expected) continue;
    throw UsageError(fmt::format(
        "analysis {}: expected all {} KV heads of layer {} of sequence {}, which its rows are of, "
        "found {}; leave --heads out, or the analysis",
        info.name, expected, name.layer, name.sequence, found));
  }
}

void check_stream(const AnalysisInfo& info, const SweepPlan& plan) {
  if (!info.needs_stream) return;
  for (const PlannedUnit& unit : plan.units) {
    const Trace& trace = plan.traces[unit.trace];
    const UnitName& name = unit.unit.name;
    const int heads = unit.unit.shape.num_kv_heads;
    const std::size_t found = layer_info(trace, name).kv_heads.size();
    if (found == static_cast<std::size_t>(heads)) continue;
    throw DataError(fmt::format(
        "{}: /sequences/{}/layers/{}: expected all {} KV heads of the layer, which the analysis {} "
        "needs, found {}; record all heads, or leave the analysis out",
        trace.file().string(), name.sequence, name.layer, heads, info.name, found));
  }
}

}  // namespace

void check_policies(const AnalysisInfo& info, const std::vector<Spec>& policies) {
  if (info.accepts == nullptr) return;
  const auto found = std::count_if(policies.begin(), policies.end(), info.accepts);
  if (static_cast<std::size_t>(found) >= info.min_policies) return;
  throw UsageError(fmt::format(
      "analysis {} looks at replays: expected {} policies that it can look at (kvsim analyze "
      "--help) among --policies, with --budgets; found {}",
      info.name, info.min_policies, found));
}

void check_traces(const AnalysisInfo& info, const SweepPlan& plan) {
  check_datasets(info, plan);
  check_spans(info, plan);
  check_layers(info, plan);
  check_whole_layers(info, plan);
  check_stream(info, plan);
}

bool stands_for_layer(const Trace& trace, const UnitName& name) {
  return layer_info(trace, name).kv_heads.front() == name.kv_head;
}

}  // namespace kvsim
