#include "sim/sweep/trace_needs.h"

#include <fmt/format.h>

#include "sim/base/errors.h"
#include "sim/replay/answer_steps.h"

namespace kvsim {

void check_needs(const Spec& policy, const Trace& trace, const SelectedUnit& unit,
                 const Protocol& protocol) {
  const TraceNeeds needs = policy.needs();
  if (needs == TraceNeeds()) return;
  const auto refuse = [&](const std::string& dataset, std::string_view expected,
                          std::string_view found, std::string_view cure) {
    throw DataError(
        fmt::format("{}: {}: expected {} that {} needs, found {}; {}, or leave the policy out",
                    trace.file().string(), dataset, expected, policy.text(), found, cure));
  };
  const SequenceInfo& sequence = sequence_info(trace, unit.name);
  const LayerInfo& layer = layer_info(trace, unit.name);
  const std::string of_sequence = "/sequences/" + sequence.name;
  const std::string of_layer = fmt::format("layers/{}", layer.index);
  if (needs.answer_spans) {
    const int first = protocol.first_measured(sequence.prompt_length);
    if (answer_steps(sequence.spans, 0).empty()) {
      refuse(of_sequence + "/spans", "the span labelled answer", "none",
             "record texts whose answers are marked");
    }
    if (answer_steps(sequence.spans, first).empty()) {
      refuse(of_sequence + "/spans", "the span labelled answer after the prompt",
             "answers within the prompt alone", "end the prompt before the answer");
    }
  }
  if (needs.output_projection && !layer.readers.empty()) {
    refuse(of_sequence + "/" + of_layer, "a layer whose cache no other one reads",
           fmt::format("that layer {} does", layer.readers.front()), "leave the layer out");
  }
  if (needs.output_projection && layer.hidden == 0) {
    refuse(fmt::format("/model/{}/output_projection", of_layer), "the output projection", "nothing",
           "record the trace with --also output_projection");
  }
  const int num_kv_heads = layer.shape.num_kv_heads;
  if (needs.output_projection && std::ssize(layer.kv_heads) != num_kv_heads) {
    refuse(of_sequence + "/" + of_layer, fmt::format("all {} KV heads of the layer", num_kv_heads),
           fmt::format("{}", layer.kv_heads.size()), "record all heads");
  }
  if (needs.output_score_grad && layer.gradient_samples == 0) {
    refuse(fmt::format("{}/{}/output_score_grad", of_sequence, of_layer), "the gradients",
           "nothing", "record the trace with --also output_score_grad");
  }
}

}  // namespace kvsim
