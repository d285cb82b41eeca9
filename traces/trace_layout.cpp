#include "traces/trace_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "traces/hdf5/hdf5_type.h"
#include "traces/spans.h"

namespace kvsim {
namespace {

constexpr int kFormatVersion = 1;
const std::string kRecordRopeAgain = "record the file again, or without /rope";
const std::string kRecordSequenceAgain = "record the sequence again";
const std::string kRecordLayerAgain = "record the layer again";

Rope read_rope(const GroupReader& group, int head_dim) {
  Rope rope;
  rope.style = group.text("style");
  if (rope.style != "half" && rope.style != "interleaved") {
    group.place().attribute("style").fail("half or interleaved", in_quotes(rope.style),
                                          group.fix());
  }
  rope.attention_factor = group.positive("attention_factor");

  const H5::DataSet dataset = group.dataset("inv_freq");
  const Place place = group.place().child("inv_freq");
  if (!is_float64(dataset.getDataType())) {
    place.fail("float64", type_name(dataset.getDataType()), group.fix());
  }
  const H5::DataSpace space = dataset.getSpace();
  const hssize_t length = space.getSimpleExtentNpoints();
  if (space.getSimpleExtentNdims() != 1 || length < 1 || length > head_dim / 2) {
    place.fail(fmt::format("shape [rotary_dim / 2], at most [{}]", head_dim / 2), shape_name(space),
               group.fix());
  }
  rope.inverse_frequency.resize(length);
  dataset.read(rope.inverse_frequency.data(), H5::PredType::NATIVE_DOUBLE);
  for (hssize_t index = 0; index < length; ++index) {
    if (!std::isfinite(rope.inverse_frequency[index])) {
      place.fail("finite numbers", fmt::format("{} at [{}]", rope.inverse_frequency[index], index),
                 group.fix());
    }
  }
  return rope;
}

/// Whether the group has the optional dataset `name`. Throws DataError unless it has the right type
/// and one entry per token.
bool has_list(const GroupReader& group, const std::string& name, int tokens,
              bool right_type(const H5::DataType&), const std::string& type) {
  if (!group.contains(name)) return false;
  const Place place = group.place().child(name);
  const H5::DataSet dataset = group.dataset(name);
  if (!right_type(dataset.getDataType())) {
    place.fail(type, type_name(dataset.getDataType()), group.fix());
  }
  const std::string expected = fmt::format("[{}]", tokens);
  const std::string found = shape_name(dataset.getSpace());
  if (found != expected) place.fail("shape " + expected, found, group.fix());
  return true;
}

bool is_string(const H5::DataType& type) { return type.getClass() == H5T_STRING; }

int layer_index(const GroupReader& layers, const std::string& name, int num_layers) {
  int index = -1;
  std::from_chars(name.data(), name.data() + name.size(), index);
  // Comparing with the formatted number rejects what from_chars accepts: "1x", "01", "-0".
  if (index < 0 || index >= num_layers || fmt::format("{}", index) != name) {
    layers.place().child(name).fail(fmt::format("a layer number in 0..{}", num_layers - 1),
                                    in_quotes(name), "rename or remove the group");
  }
  return index;
}

LayerData open_datasets(const GroupReader& layer, const TraceHeader& header, int tokens) {
  const auto open = [&](const std::string& name, int heads, int dim) {
    return HeadDataset(layer, name, heads, tokens, dim);
  };
  LayerData data{open("query", header.num_query_heads, header.head_dim),
                 open("key", header.num_kv_heads, header.head_dim),
                 open("value", header.num_kv_heads, header.value_dim),
                 {}};
  if (layer.contains("output")) {
    data.output = open("output", header.num_query_heads, header.value_dim);
  }
  return data;
}

bool contains_group(const HeadDataset& dataset, int kv_head, int group_size) {
  for (int member = 0; member < group_size; ++member) {
    if (!dataset.contains(kv_head * group_size + member)) return false;
  }
  return true;
}

LayerInfo read_layer(const GroupReader& layer, const TraceHeader& header, int tokens) {
  LayerInfo info;
  if (layer.has_attribute("sliding_window")) {
    info.sliding_window = layer.integer("sliding_window", 1);
  }
  const LayerData data = open_datasets(layer, header, tokens);
  info.key_bytes = data.key.element_bytes();
  info.value_bytes = data.value.element_bytes();
  info.has_output = data.output.has_value();
  if (info.has_output) info.output_bytes = data.output->element_bytes();
  for (int head = 0; head < header.num_kv_heads; ++head) {
    if (!data.key.contains(head) || !data.value.contains(head) ||
        !contains_group(data.query, head, header.group_size())) {
      continue;
    }
    info.kv_heads.push_back(head);
    info.has_output = info.has_output && contains_group(*data.output, head, header.group_size());
  }
  return info;
}

SequenceInfo read_sequence(const GroupReader& group, const TraceHeader& header) {
  SequenceInfo info;
  info.num_tokens = group.integer("num_tokens", 1);
  info.prompt_length = group.integer("prompt_length", 0, info.num_tokens);
  info.source = group.optional_text("source");
  info.has_token_ids = has_list(group, "token_ids", info.num_tokens, is_int32, "int32");
  info.has_token_text = has_list(group, "token_text", info.num_tokens, is_string, "strings");
  info.spans = read_spans(group, info.num_tokens);

  const GroupReader layers = group.group("layers", kRecordSequenceAgain);
  for (const std::string& name : layers.names()) {
    const int index = layer_index(layers, name, header.num_layers);
    info.layers.push_back(
        read_layer(layers.group(name, kRecordLayerAgain), header, info.num_tokens));
    info.layers.back().index = index;
  }
  std::sort(info.layers.begin(), info.layers.end(),
            [](const LayerInfo& one, const LayerInfo& other) { return one.index < other.index; });
  return info;
}

}  // namespace

TraceHeader read_header(const GroupReader& root) {
  root.integer("kvtrace_version", kFormatVersion, kFormatVersion);
  TraceHeader header;
  header.model = root.text("model");
  header.num_layers = root.integer("num_layers", 1);
  header.num_query_heads = root.integer("num_query_heads", 1);
  header.num_kv_heads = root.integer("num_kv_heads", 1);
  header.head_dim = root.integer("head_dim", 1);
  header.value_dim = root.integer("value_dim", 1);
  header.scale = root.positive("scale");
  if (root.has_attribute("logit_softcap")) header.logit_softcap = root.positive("logit_softcap");
  header.recorder = root.optional_text("recorder");
  header.dtype = root.optional_text("dtype");
  if (header.num_query_heads % header.num_kv_heads != 0) {
    root.place()
        .attribute("num_query_heads")
        .fail(fmt::format("a multiple of num_kv_heads = {}", header.num_kv_heads),
              fmt::format("{}", header.num_query_heads), root.fix());
  }
  if (root.contains("rope")) {
    header.rope = read_rope(root.group("rope", kRecordRopeAgain), header.head_dim);
  }
  return header;
}

std::vector<SequenceInfo> read_sequences(const GroupReader& root, const TraceHeader& header) {
  const GroupReader group = root.group("sequences", root.fix());
  std::vector<SequenceInfo> sequences;
  for (const std::string& name : group.names()) {
    sequences.push_back(read_sequence(group.group(name, kRecordSequenceAgain), header));
    sequences.back().name = name;
  }
  if (sequences.empty()) group.place().fail("at least one sequence", "none", root.fix());
  return sequences;
}

LayerData open_layer(const GroupReader& root, const TraceHeader& header,
                     const SequenceInfo& sequence, int layer) {
  const GroupReader group = root.group("sequences", root.fix())
                                .group(sequence.name, kRecordSequenceAgain)
                                .group("layers", kRecordSequenceAgain)
                                .group(fmt::format("{}", layer), kRecordLayerAgain);
  return open_datasets(group, header, sequence.num_tokens);
}

}  // namespace kvsim
