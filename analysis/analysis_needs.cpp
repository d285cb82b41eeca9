#include "analysis/analysis_needs.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "sim/base/errors.h"
#include "sim/replay/answer_steps.h"

namespace kvsim {
namespace {

void check_tokens(const AnalysisInfo& info, const SweepPlan& plan) {
  if (!info.needs_tokens) return;
  for (const PlannedUnit& unit : plan.units) {
    const Trace& trace = plan.traces[unit.trace];
    for (const SequenceInfo& sequence : trace.sequences()) {
      if (sequence.name != unit.unit.name.sequence || sequence.has_token_ids) continue;
      throw DataError(fmt::format(
          "{}: /sequences/{}/token_ids: expected the tokens, which the analysis {} needs, found "
          "nothing; record them, or leave the analysis out",
          trace.file().string(), sequence.name, info.name));
    }
  }
}

void check_gradients(const AnalysisInfo& info, const SweepPlan& plan) {
  if (!info.needs_gradients) return;
  for (const PlannedUnit& unit : plan.units) {
    const Trace& trace = plan.traces[unit.trace];
    const UnitName& name = unit.unit.name;
    if (layer_info(trace, name).gradient_samples > 0) continue;
    throw DataError(fmt::format(
        "{}: /sequences/{}/layers/{}/output_score_grad: expected the gradients, which the analysis "
        "{} needs, found nothing; record the trace with --also output_score_grad, or leave the "
        "analysis out",
        trace.file().string(), name.sequence, name.layer, info.name));
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

void check_mlp_activation(const AnalysisInfo& info, const SweepPlan& plan) {
  if (!info.needs_mlp_activation) return;
  using Layer = std::tuple<std::size_t, std::string, int>;
  std::set<Layer> found;
  for (const PlannedUnit& unit : plan.units) {
    const UnitName& name = unit.unit.name;
    if (stands_for_layer(plan.traces[unit.trace], name)) {
      found.emplace(unit.trace, name.sequence, name.layer);
    }
  }
  for (const PlannedUnit& unit : plan.units) {
    const Trace& trace = plan.traces[unit.trace];
    const UnitName& name = unit.unit.name;
    const LayerInfo& layer = layer_info(trace, name);
    if (layer.mlp_width == 0) {
      throw DataError(fmt::format(
          "{}: /sequences/{}/layers/{}/mlp_activation: expected what the MLP's neurons gave, which "
          "the analysis {} needs, found nothing; record the trace with --also mlp_activation, or "
          "leave the analysis out",
          trace.file().string(), name.sequence, name.layer, info.name));
    }
    if (!found.contains({unit.trace, name.sequence, name.layer})) {
      throw UsageError(fmt::format(
          "analysis {}: layer {} of sequence {} has its row at KV head {}; expected it among "
          "--heads, or no --heads",
          info.name, name.layer, name.sequence, layer.kv_heads.front()));
    }
  }
}

void check_stream(const AnalysisInfo& info, const SweepPlan& plan) {
  if (!info.needs_stream) return;
  for (const PlannedUnit& unit : plan.units) {
    const Trace& trace = plan.traces[unit.trace];
    const UnitName& name = unit.unit.name;
    const LayerInfo& layer = layer_info(trace, name);
    const auto refuse = [&](const std::string& dataset, const std::string& expected,
                            const std::string& found, const std::string& cure) {
      throw DataError(
          fmt::format("{}: {}: expected {}, which the analysis {} needs, found {}; {}, or leave "
                      "the analysis out",
                      trace.file().string(), dataset, expected, info.name, found, cure));
    };
    const std::string place = fmt::format("/sequences/{}/layers/{}", name.sequence, name.layer);
    const std::string also = "record the trace with --also output_projection,residual";
    if (!layer.has_residual) refuse(place + "/residual", "the residual stream", "nothing", also);
    if (layer.hidden == 0) {
      refuse(fmt::format("/model/layers/{}/output_projection", name.layer), "the output projection",
             "nothing", also);
    }
    const int heads = trace.header().num_kv_heads;
    if (std::ssize(layer.kv_heads) != heads) {
      refuse(place, fmt::format("all {} KV heads of the layer", heads),
             fmt::format("{}", layer.kv_heads.size()), "record all heads");
    }
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
  check_tokens(info, plan);
  check_gradients(info, plan);
  check_spans(info, plan);
  check_mlp_activation(info, plan);
  check_stream(info, plan);
}

bool stands_for_layer(const Trace& trace, const UnitName& name) {
  return layer_info(trace, name).kv_heads.front() == name.kv_head;
}

}  // namespace kvsim
