#include "traces/trace_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "traces/hdf5/hdf5_type.h"
#include "traces/hdf5/stored_size.h"
#include "traces/integrity/digest_attribute.h"
#include "traces/spans.h"
#include "traces/text_list.h"

namespace kvsim {
namespace {

constexpr int kNewestVersion = 2;
const std::string kRecordRopeAgain = "record the file again, or without /rope";
const std::string kRecordModelAgain = "record the file again, or without /model";
const std::string kRecordSequenceAgain = "record the sequence again";
const std::string kRecordLayerAgain = "record the layer again";

Rope read_rope(const GroupReader& group, int head_dim) {
  Rope rope;
  const AttributeReader attributes = group.attributes();
  rope.style = attributes.text("style");
  if (rope.style != "half" && rope.style != "interleaved") {
    group.place().attribute("style").fail("half or interleaved", in_quotes(rope.style),
                                          group.fix());
  }
  rope.attention_factor = attributes.positive("attention_factor");

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
  rope.inverse_frequency = read_list<double>(dataset, place, group.fix());
  for (hssize_t index = 0; index < length; ++index) {
    if (!std::isfinite(rope.inverse_frequency[index])) {
      place.fail("finite numbers", fmt::format("{} at [{}]", rope.inverse_frequency[index], index),
                 group.fix());
    }
  }
  return rope;
}

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

/// The columns of the output projections that the file holds, by layer.
std::map<int, int> hidden_sizes(const GroupReader& root, const TraceHeader& header) {
  std::map<int, int> sizes;
  if (!root.contains("model")) return sizes;
  const GroupReader model = root.group("model", kRecordModelAgain);
  if (!model.contains("layers")) return sizes;
  const GroupReader layers = model.group("layers", kRecordModelAgain);
  for (const std::string& name : layers.names()) {
    const int layer = layer_index(layers, name, header.num_layers);
    if (const auto projection = open_projection(root, header, layer)) {
      sizes[layer] = projection->size(1);
    }
  }
  return sizes;
}

/// LayerInfo::recorded.
std::map<Dataset, std::vector<int>> recorded_of(const LayerData& data, const TraceHeader& header,
                                                const std::vector<int>& kv_heads, int hidden) {
  std::map<Dataset, std::vector<int>> recorded;
  for (const auto& [id, dataset] : data.matrices) {
    const DatasetInfo& info = info_of(id);
    if (!info.optional) continue;
    std::size_t complete = 0;  // of all heads, since a sample that is missing is an error
    for (const int head : kv_heads)
      complete += info.is_whole() || contains_unit(data, id, head, header);
    if (complete == kv_heads.size())
      recorded[id] = {dataset.shape().begin(), dataset.shape().end()};
  }
  if (kv_heads.empty()) recorded.erase(Dataset::output_score_grad);
  if (!data.sink_logit.empty()) recorded[Dataset::sink_logit] = {header.num_query_heads};
  if (hidden > 0) {
    recorded[Dataset::output_projection] = {header.num_query_heads * header.value_dim, hidden};
  }
  return recorded;
}

/// `hidden`: the columns of the layer's output projection, 0 if the file lacks it.
LayerInfo read_layer(const GroupReader& layer, const TraceHeader& header, int tokens, int hidden) {
  LayerInfo info;
  const AttributeReader attributes = layer.attributes();
  const auto tokens_of = [&](const char* name) -> std::optional<int> {
    if (!attributes.has(name)) return {};
    return attributes.integer(name, 1);
  };
  info.sliding_window = tokens_of("sliding_window");
  info.attention_chunk = tokens_of("attention_chunk");
  const LayerData data = open_datasets(layer, header, tokens);
  info.key_bytes = data.key().element_bytes();
  info.value_bytes = data.value().element_bytes();
  for (int head = 0; head < header.num_kv_heads; ++head) {
    if (data.key().contains(head) && data.value().contains(head) &&
        contains_unit(data, Dataset::query, head, header)) {
      info.kv_heads.push_back(head);
    }
  }
  info.recorded = recorded_of(data, header, info.kv_heads, hidden);
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

  const GroupReader layers = group.group("layers", kRecordSequenceAgain);
  for (const std::string& name : layers.names()) {
    const int index = layer_index(layers, name, header.num_layers);
    const auto found = hidden.find(index);
    info.layers.push_back(read_layer(layers.group(name, kRecordLayerAgain), header, info.num_tokens,
                                     found == hidden.end() ? 0 : found->second));
    info.layers.back().index = index;
  }
  std::sort(info.layers.begin(), info.layers.end(),
            [](const LayerInfo& one, const LayerInfo& other) { return one.index < other.index; });
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
  header.num_query_heads = attributes.integer("num_query_heads", 1);
  header.num_kv_heads = attributes.integer("num_kv_heads", 1);
  header.head_dim = attributes.integer("head_dim", 1);
  header.value_dim = attributes.integer("value_dim", 1);
  header.scale = attributes.positive("scale");
  if (attributes.has("logit_softcap")) header.logit_softcap = attributes.positive("logit_softcap");
  header.recorder = attributes.optional_text("recorder");
  header.dtype = attributes.optional_text("dtype");
  header.trace_id_v1 = attributes.optional_text("trace_id_v1");
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
  const std::map<int, int> hidden = hidden_sizes(root, header);
  std::vector<SequenceInfo> sequences;
  for (const std::string& name : group.names()) {
    sequences.push_back(read_sequence(group.group(name, kRecordSequenceAgain), header, hidden));
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
