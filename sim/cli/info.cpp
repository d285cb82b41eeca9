#include <fmt/format.h>

#include <iostream>
#include <map>

#include "sim/base/printable.h"
#include "sim/cli/options.h"
#include "sim/cli/session.h"
#include "sim/results/table.h"
#include "traces/trace.h"

namespace kvsim::cli {
namespace {

/// Ascending indices, with runs as ranges: "0-3,7".
std::string ranges(const std::vector<int>& indices) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0, end = 0; begin < indices.size(); begin = end) {
    end = begin + 1;
    while (end < indices.size() && indices[end] == indices[end - 1] + 1) ++end;
    parts.push_back(end - begin == 1 ? std::to_string(indices[begin])
                                     : fmt::format("{}-{}", indices[begin], indices[end - 1]));
  }
  return parts.empty() ? "-" : fmt::format("{}", fmt::join(parts, ","));
}

std::string element_type(int bytes) { return bytes == 2 ? "float16" : "float32"; }

/// Lists what is recorded of a layer in addition to queries, keys, values, outputs and its window.
std::string also(const LayerInfo& layer) {
  std::vector<std::string> parts;
  if (layer.attention_chunk) parts.push_back(fmt::format("chunks of {}", *layer.attention_chunk));
  for (const auto& [dataset, shape] : layer.recorded) {
    if (dataset == Dataset::output) continue;  // has a column
    const DatasetInfo& info = info_of(dataset);
    parts.emplace_back(info.name);
    if (info.shown_axis >= 0) parts.back() += fmt::format("[{}]", shape[info.shown_axis]);
  }
  return parts.empty() ? "-" : fmt::format("{}", fmt::join(parts, ", "));
}

/// The types of all keys: a recorder chooses one for each layer of each sequence.
std::string stored_types(const Trace& trace) {
  std::map<int, std::size_t> layers;
  for (const SequenceInfo& sequence : trace.sequences()) {
    for (const LayerInfo& layer : sequence.layers) {
      if (!layer.kv_from) ++layers[layer.key_bytes];
    }
  }
  std::vector<std::string> parts;
  for (const auto& [bytes, count] : layers) {
    const std::string type = element_type(bytes);
    parts.push_back(layers.size() == 1 ? type
                                       : fmt::format("{} in {}", type, counted(count, "layer")));
  }
  return parts.empty() ? "-" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string rotation_of(const std::optional<Rope>& rope) {
  if (!rope) return "-";
  return fmt::format("{}, {} frequencies", rope->style, rope->inverse_frequency.size());
}

void print_header(const Trace& trace) {
  const TraceHeader& header = trace.header();
  const auto line = [](const char* name, const auto& value) {
    std::cout << fmt::format("{:<14}{}\n", name, value);
  };
  line("trace", printable(trace.file().string()));
  line("format", header.version >= 2 ? fmt::format("{}, with digests", header.version)
                                     : std::string("1, without digests: damage goes unnoticed; "
                                                   "kvsim convert makes it version 2"));
  line("trace id", printable(trace.id()));
  if (!header.trace_id_v1.empty()) line("trace id v1", printable(header.trace_id_v1));
  line("model", printable(header.model));
  if (!header.recorder.empty()) line("recorder", printable(header.recorder));
  line("layers", header.num_layers);
  line("query heads", header.shape.num_query_heads);
  line("KV heads", header.shape.num_kv_heads);
  line("head dim", header.shape.head_dim);
  line("value dim", header.shape.value_dim);
  line("scale", header.shape.scale);
  line("numbers", stored_types(trace));
  if (header.logit_softcap) line("soft cap", *header.logit_softcap);
  if (header.shape.rope) line("rotation", rotation_of(header.shape.rope));
  std::cout << '\n';
}

/// A row per layer of a sequence that is of another shape than the header says.
Table table_of_shapes(const Trace& trace) {
  Table table{{"sequence", "layer", "query heads", "KV heads", "head dim", "value dim", "scale",
               "rotation"},
              {}};
  const LayerShape& header = trace.header().shape;
  for (const SequenceInfo& sequence : trace.sequences()) {
    for (const LayerInfo& layer : sequence.layers) {
      const LayerShape& shape = layer.shape;
      if (shape == header) continue;
      table.rows.push_back({sequence.name, std::int64_t{layer.index},
                            std::int64_t{shape.num_query_heads}, std::int64_t{shape.num_kv_heads},
                            std::int64_t{shape.head_dim}, std::int64_t{shape.value_dim},
                            shape.scale, rotation_of(shape.rope)});
    }
  }
  return table;
}

/// A row per sequence and label, labels in the order in which they first come.
Table table_of_spans(const Trace& trace) {
  Table table{{"sequence", "label", "spans", "tokens"}, {}};
  for (const SequenceInfo& sequence : trace.sequences()) {
    std::vector<std::string> labels;
    std::map<std::string, std::pair<std::int64_t, std::int64_t>> counts;  // spans, tokens
    for (const Span& span : sequence.spans) {
      auto& [spans, tokens] = counts[span.label];
      if (spans == 0) labels.push_back(span.label);
      ++spans;
      tokens += span.end - span.start;
    }
    for (const std::string& label : labels) {
      table.rows.push_back({sequence.name, label, counts[label].first, counts[label].second});
    }
  }
  return table;
}

}  // namespace

int run_info(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto values = parse(verb, arguments, po::options_description("Options"), {"TRACE"});
  if (!values) return 0;
  const Trace trace(positional_from(verb, *values, "TRACE"));
  print_header(trace);
  Table table{{"sequence", "tokens", "prompt", "layer", "KV heads", "window", "keys", "values",
               "output", "also", "source"},
              {}};
  for (const SequenceInfo& sequence : trace.sequences()) {
    for (const LayerInfo& layer : sequence.layers) {
      table.rows.push_back(
          {sequence.name, std::int64_t{sequence.num_tokens}, std::int64_t{sequence.prompt_length},
           std::int64_t{layer.index},
           layer.kv_from ? fmt::format("of layer {}", *layer.kv_from) : ranges(layer.kv_heads),
           layer.sliding_window ? std::to_string(*layer.sliding_window) : "-",
           layer.kv_from ? "-" : element_type(layer.key_bytes),
           layer.kv_from ? "-" : element_type(layer.value_bytes), layer.has_output ? "yes" : "no",
           also(layer), sequence.source});
    }
  }
  write_aligned(std::cout, table);
  for (const Table& further : {table_of_shapes(trace), table_of_spans(trace)}) {
    if (further.rows.empty()) continue;
    std::cout << '\n';
    write_aligned(std::cout, further);
  }
  return 0;
}

}  // namespace kvsim::cli
