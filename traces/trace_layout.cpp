#include "traces/trace_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "traces/hdf5/hdf5_type.h"
#include "traces/hdf5/stored_size.h"
#include "traces/integrity/digest_attribute.h"
#include "traces/shared_caches.h"
#include "traces/spans.h"
#include "traces/text_list.h"

namespace kvsim {
namespace {

constexpr int kNewestVersion = 2;
const std::string kRecordModelAgain = "record the file again, or without /model";
const std::string kRecordSequenceAgain = "record the sequence again";
const std::string kRecordLayerAgain = "record the layer again";

/// Whether the group has the optional dataset `token_ids`. Throws DataError unless it is int32 with
/// one entry per token.
bool has_token_ids(const GroupReader& group, int tokens) {
  const std::string name = "token_ids";
  if (!group.contains(name)) return false;
  const Place place = group.place().child(name);
  const H5::DataSet dataset = group.dataset(name);
  if (!is_int32(dataset.getDataType())) {
    place.fail("int32", type_name(dataset.getDataType()), group.fix());
  }
  const std::string expected = fmt::format("[{}]", tokens);
  const std::string found = shape_name(dataset.getSpace());
  if (found != expected) place.fail("shape " + expected, found, group.fix());
  require_written(dataset, place, group.fix());
  return true;
}

bool has_token_text(const GroupReader& group, int tokens) {
  if (!group.contains("token_text")) return false;
  check_text_list(group, "token_text", static_cast<std::size_t>(tokens));
  return true;
}

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

/// The shapes of all layers of which a sequence holds something, which share heads of one size.
std::map<int, LayerShape> shapes_of(const GroupReader& sequences, const TraceHeader& header) {
  std::map<int, LayerShape> shapes;
  for (const std::string& name : sequences.names()) {
    const GroupReader layers =
        sequences.group(name, kRecordSequenceAgain).group("layers", kRecordSequenceAgain);
    for (const std::string& layer : layers.names()) {
      const GroupReader group = layers.group(layer, kRecordLayerAgain);
      const LayerShape shape = read_shape(group, header.shape);
      const auto [known, is_new] =
          shapes.emplace(layer_index(layers, layer, header.num_layers), shape);
      if (!is_new) require_same_heads(shape, known->second, group.place());
    }
  }
  return shapes;
}

/// The columns of the output projections that the file holds, by layer.
std::map<int, int> hidden_sizes(const GroupReader& root, const TraceHeader& header,
                                const std::map<int, LayerShape>& shapes) {
  std::map<int, int> sizes;
  if (!root.contains("model")) return sizes;
  const GroupReader model = root.group("model", kRecordModelAgain);
  if (!model.contains("layers")) return sizes;
  const GroupReader layers = model.group("layers", kRecordModelAgain);
  for (const std::string& name : layers.names()) {
    const int layer = layer_index(layers, name, header.num_layers);
    const auto found = shapes.find(layer);
    const LayerShape& shape = found == shapes.end() ? header.shape : found->second;
    if (const auto projection = open_projection(root, shape, layer)) {
      sizes[layer] = projection->size(1);
    }
  }
  return sizes;
}

/// LayerInfo::recorded.
std::map<Dataset, std::vector<int>> recorded_of(const LayerData& data, const LayerShape& shape,
                                                const std::vector<int>& kv_heads, int hidden) {
  std::map<Dataset, std::vector<int>> recorded;
  for (const auto& [id, dataset] : data.matrices) {
    const DatasetInfo& info = info_of(id);
    if (!info.optional) continue;
    std::size_t complete = 0;  // of all heads, since a sample that is missing is an error
    for (const int head : kv_heads)
      complete += info.is_whole() || contains_unit(data, id, head, shape);
    if (complete == kv_heads.size())
      recorded[id] = {dataset.shape().begin(), dataset.shape().end()};
  }
  if (kv_heads.empty()) recorded.erase(Dataset::output_score_grad);
  if (!data.sink_logit.empty()) recorded[Dataset::sink_logit] = {shape.num_query_heads};
  if (data.selected) recorded[Dataset::selected] = *data.selected;
  if (hidden > 0) {
    recorded[Dataset::output_projection] = {shape.num_query_heads * shape.value_dim, hidden};
  }
  return recorded;
}

/// `outer`: of a layer that says nothing of its own. `hidden`: the columns of the layer's output
/// projection, 0 if the file lacks it.
LayerInfo read_layer(const GroupReader& layer, const LayerShape& outer, int tokens, int hidden) {
  LayerInfo info;
  info.shape = read_shape(layer, outer);
  const AttributeReader attributes = layer.attributes();
  const auto tokens_of = [&](const char* name) -> std::optional<int> {
    if (!attributes.has(name)) return {};
    return attributes.integer(name, 1);
  };
  info.sliding_window = tokens_of("sliding_window");
  info.attention_chunk = tokens_of("attention_chunk");
  if (attributes.has("kv_from")) info.kv_from = attributes.integer("kv_from", 0);
  const LayerData data = open_datasets(layer, info, tokens);
  if (!info.kv_from) {
    info.key_bytes = data.key().element_bytes();
    info.value_bytes = data.value().element_bytes();
  }
  for (int head = 0; head < info.shape.num_kv_heads; ++head) {
    const bool has_cache =
        info.kv_from || (data.key().contains(head) && data.value().contains(head));
    if (has_cache && contains_unit(data, Dataset::query, head, info.shape)) {
      info.kv_heads.push_back(head);
    }
  }
  info.recorded = recorded_of(data, info.shape, info.kv_heads, hidden);
  info.hidden = hidden;
  info.has_output = info.has(Dataset::output);
  if (info.has_output) info.output_bytes = data.matrices.at(Dataset::output).element_bytes();
  if (info.has(Dataset::output_score_grad)) {
    const HeadDataset& gradient = data.matrices.at(Dataset::output_score_grad);
    info.gradient_samples = gradient.size(0);
    info.gradient_bytes = gradient.element_bytes();
  }
  const HeadDataset* const residual = data.find(Dataset::residual);
  if (residual != nullptr && hidden > 0 && residual->size(1) != hidden) {
    residual->place().fail(
        fmt::format("shape [{}, {}], as wide as output_projection", tokens, hidden),
        fmt::format("[{}, {}]", tokens, residual->size(1)), residual->fix());
  }
  return info;
}

/// `hidden`: the columns of the output projections, by layer.
SequenceInfo read_sequence(const GroupReader& group, const TraceHeader& header,
                           const std::map<int, int>& hidden) {
  SequenceInfo info;
  const AttributeReader attributes = group.attributes();
  info.num_tokens = attributes.integer("num_tokens", 1);
  info.prompt_length = attributes.integer("prompt_length", 0, info.num_tokens);
  info.source = attributes.optional_text("source");
  info.has_token_ids = has_token_ids(group, info.num_tokens);
  info.has_token_text = has_token_text(group, info.num_tokens);
  info.spans = read_spans(group, info.num_tokens);

  LayerShape shape = header.shape;
  shape.rope = read_rope(group, shape.head_dim, shape.rope);
  const GroupReader layers = group.group("layers", kRecordSequenceAgain);
  for (const std::string& name : layers.names()) {
    const int index = layer_index(layers, name, header.num_layers);
    const auto found = hidden.find(index);
    info.layers.push_back(read_layer(layers.group(name, kRecordLayerAgain), shape, info.num_tokens,
                                     found == hidden.end() ? 0 : found->second));
    info.layers.back().index = index;
  }
  std::sort(info.layers.begin(), info.layers.end(),
            [](const LayerInfo& one, const LayerInfo& other) { return one.index < other.index; });
  link_shared_caches(layers, info);
  return info;
}

}  // namespace

int LayerInfo::width(Dataset dataset) const {
  const auto found = recorded.find(dataset);
  return found == recorded.end() ? 0 : found->second.back();
}

// With a damaged version the file would be read without its digests.
int read_version(const GroupReader& root) {
  const std::string name = "kvtrace_version";
  const int version = root.attributes().integer(name, 1);
  if (version > kNewestVersion) {
    root.place().attribute(name).fail(fmt::format("an integer in 1..{}", kNewestVersion),
                                      fmt::format("{}", version),
                                      "use a newer kvsim, or copy the file again");
  }
  if (version == 1 && root.contains("manifest")) {
    root.place().attribute(name).fail("the integer 2, as there is a manifest", "1",
                                      "copy the file again");
  }
  return version;
}

TraceHeader read_header(const GroupReader& root) {
  const AttributeReader attributes = root.attributes();
  TraceHeader header;
  header.model = attributes.text("model");
  header.num_layers = attributes.integer("num_layers", 1);
  if (attributes.has("logit_softcap")) header.logit_softcap = attributes.positive("logit_softcap");
  header.recorder = attributes.optional_text("recorder");
  header.dtype = attributes.optional_text("dtype");
  header.trace_id_v1 = attributes.optional_text("trace_id_v1");
  for (const auto& [name, number] : shape_attributes()) attributes.integer(name, 1);
  attributes.positive("scale");
  header.shape = read_shape(root, {});
  return header;
}

std::vector<SequenceInfo> read_sequences(const GroupReader& root, const TraceHeader& header) {
  const GroupReader group = root.group("sequences", root.fix());
  const std::map<int, int> hidden = hidden_sizes(root, header, shapes_of(group, header));
  std::vector<SequenceInfo> sequences;
  for (const std::string& name : group.names()) {
    sequences.push_back(read_sequence(group.group(name, kRecordSequenceAgain), header, hidden));
    sequences.back().name = name;
  }
  if (sequences.empty()) group.place().fail("at least one sequence", "none", root.fix());
  return sequences;
}

GroupReader layer_group(const GroupReader& root, const SequenceInfo& sequence,
                        const LayerInfo& layer) {
  return root.group("sequences", root.fix())
      .group(sequence.name, kRecordSequenceAgain)
      .group("layers", kRecordSequenceAgain)
      .group(fmt::format("{}", layer.index), kRecordLayerAgain);
}

LayerData open_layer(const GroupReader& root, const SequenceInfo& sequence,
                     const LayerInfo& layer) {
  return open_datasets(layer_group(root, sequence, layer), layer, sequence.num_tokens);
}

}  // namespace kvsim
