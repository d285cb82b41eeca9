#include "traces/trace_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include "traces/dataset_writer.h"
#include "traces/hdf5/attribute_writer.h"
#include "traces/hdf5/group_writer.h"
#include "traces/hdf5/hdf5_output.h"
#include "traces/hdf5/utf8.h"
#include "traces/integrity/manifest.h"
#include "traces/layer_writer.h"
#include "traces/selected_dataset.h"

namespace kvsim {
namespace {

float largest_of(const std::vector<std::vector<Matrix>>& samples) {
  float largest = 0;
  for (const std::vector<Matrix>& heads : samples) {
    for (const Matrix& head : heads) largest = std::max(largest, head.cwiseAbs().maxCoeff());
  }
  return largest;
}

}  // namespace

double gradient_scale(float largest) {
  constexpr int kExponent = 13;
  constexpr int kLeastExponent = -126;  // of a normal float
  if (largest == 0 || !std::isfinite(largest)) return 1;
  return std::ldexp(1.0, std::max(std::ilogb(largest) - kExponent, kLeastExponent));
}

struct TraceWriter::File {
  template <class Place>
  File(const Place& place, const TraceHeader& trace_header, ElementType type)
      : output(place), header(trace_header), elements(type) {
    output.write(0, [&](H5::H5File& h5) { write_header(h5); });
  }

  void write_header(H5::H5File& h5);

  /// Of a layer that was written, or else as the header says.
  const LayerShape& shape_of(int index) const {
    const auto found = shapes.find(index);
    return found == shapes.end() ? header.shape : found->second;
  }
  /// Of the layer written last.
  const LayerShape& shape() const { return shapes.at(layer_index); }

  std::uintmax_t bytes_of(const Matrix& matrix) const {
    return matrix.size() * (elements == ElementType::float16 ? 2U : 4U);
  }

  Hdf5Output output;
  TraceHeader header;
  ElementType elements;
  std::string sequence;      ///< path of the group of the sequence begun last
  int num_tokens = 0;        ///< of that sequence
  std::optional<Rope> rope;  ///< of that sequence
  std::string layer;         ///< path of the group of the layer written last; empty: none of it yet
  int layer_index = 0;       ///< of that layer
  std::map<int, LayerShape> shapes;  ///< of the layers written
  bool finished = false;
};

void TraceWriter::File::write_header(H5::H5File& h5) {
  const H5::Group root = h5.openGroup("/");
  write_attribute(root, "kvtrace_version", 2);
  write_attribute(root, "model", header.model);
  write_attribute(root, "num_layers", header.num_layers);
  for (const auto& [name, number] : shape_attributes()) {
    write_attribute(root, name, header.shape.*number);
  }
  write_attribute(root, "scale", header.shape.scale);
  write_attribute(root, "dtype",
                  std::string(elements == ElementType::float16 ? "float16" : "float32"));
  if (header.logit_softcap) write_attribute(root, "logit_softcap", *header.logit_softcap);
  if (!header.recorder.empty()) write_attribute(root, "recorder", header.recorder);
  if (!header.trace_id_v1.empty()) write_attribute(root, "trace_id_v1", header.trace_id_v1);
  if (header.shape.rope) write_rope(h5, "/rope", *header.shape.rope);
  create_group(h5, "/sequences");
}

TraceWriter::TraceWriter(const std::filesystem::path& file, const TraceHeader& header,
                         ElementType elements)
    : file_(std::make_unique<File>(file, header, elements)) {}

TraceWriter::TraceWriter(const TraceHeader& header, ElementType elements)
    : file_(std::make_unique<File>(Hdf5Output::InMemory{Trace::kInMemory}, header, elements)) {}

TraceWriter::~TraceWriter() = default;

void TraceWriter::begin_sequence(const std::string& name, int num_tokens, int prompt_length,
                                 const std::string& source,
                                 const std::vector<std::int32_t>& token_ids,
                                 const std::optional<Rope>& rope) {
  require(!file_->finished, "begin_sequence: the trace is closed");
  require(!name.empty() && name.find('/') == std::string::npos && is_utf8(name),
          fmt::format("sequence name: expected UTF-8 without a slash, found {}", in_quotes(name)));
  require(token_ids.empty() || token_ids.size() == static_cast<std::size_t>(num_tokens),
          fmt::format("token_ids: expected {} entries", num_tokens));
  const std::uintmax_t bytes = token_ids.size() * sizeof(std::int32_t);
  file_->output.write(bytes, [&](H5::H5File& h5) {
    file_->sequence = "/sequences/" + name;
    file_->num_tokens = num_tokens;
    file_->layer.clear();
    file_->rope = rope ? rope : file_->header.shape.rope;
    const H5::Group group = create_group(h5, file_->sequence);
    if (file_->rope != file_->header.shape.rope) write_rope(h5, file_->sequence + "/rope", *rope);
    write_attribute(group, "num_tokens", num_tokens);
    write_attribute(group, "prompt_length", prompt_length);
    if (!source.empty()) write_attribute(group, "source", source);
    if (!token_ids.empty()) {
      write_list(h5, file_->sequence + "/token_ids", H5::PredType::STD_I32LE, token_ids.data(),
                 {token_ids.size()});
    }
    create_group(h5, file_->sequence + "/layers");
  });
}

void TraceWriter::write_token_text(const std::vector<std::string>& texts) {
  require(!file_->finished && std::ssize(texts) == file_->num_tokens && !texts.empty(),
          fmt::format("token_text: expected {} entries", file_->num_tokens));
  file_->output.write(
      0, [&](H5::H5File& h5) { write_texts(h5, file_->sequence + "/token_text", texts); });
}

void TraceWriter::write_spans(const std::vector<Span>& spans) {
  const int tokens = file_->num_tokens;
  require(!file_->finished && tokens > 0, "write_spans: no sequence has begun");
  std::vector<std::int32_t> starts;
  std::vector<std::int32_t> ends;
  std::vector<std::string> labels;
  for (const Span& span : spans) {
    require(0 <= span.start && span.start < span.end && span.end <= tokens,
            fmt::format("spans: expected some of the {} tokens, found [{}, {})", tokens, span.start,
                        span.end));
    require(span.label.find('\0') == std::string::npos, "spans: a label holds a zero byte");
    starts.push_back(span.start);
    ends.push_back(span.end);
    labels.push_back(span.label);
  }
  file_->output.write(0, [&](H5::H5File& h5) {
    const std::string path = file_->sequence + "/spans";
    create_group(h5, path);
    write_list(h5, path + "/start", H5::PredType::STD_I32LE, starts.data(), {starts.size()});
    write_list(h5, path + "/end", H5::PredType::STD_I32LE, ends.data(), {ends.size()});
    write_texts(h5, path + "/label", labels);
  });
}

void TraceWriter::write_layer(int layer, const std::vector<Matrix>& query,
                              const std::vector<Matrix>& key, const std::vector<Matrix>& value,
                              const std::vector<Matrix>& output,
                              const LayerAttributes& attributes) {
  const LayerShape& outer = file_->header.shape;
  const int tokens = file_->num_tokens;
  require(!file_->finished && tokens > 0, "write_layer: no sequence has begun");
  const bool has_cache = !attributes.kv_from.has_value();
  LayerShape shape;
  if (has_cache) {
    shape = shape_of_vectors(query, key, value);
    require_shape("key", key, shape.num_kv_heads, tokens, shape.head_dim);
    require_shape("value", value, shape.num_kv_heads, tokens, shape.value_dim);
  } else {
    require(key.empty() && value.empty(), "write_layer: expected no key and value with kv_from");
    shape = file_->shape_of(*attributes.kv_from);
    shape.num_query_heads = static_cast<int>(query.size());
  }
  require_shape("query", query, shape.num_query_heads, tokens, shape.head_dim);
  if (!output.empty()) {
    require_shape("output", output, shape.num_query_heads, tokens, shape.value_dim);
  }
  const auto size = [](const std::vector<Matrix>& heads) {
    return heads.size() * (heads.empty() ? 0 : heads.front().size());
  };
  const auto element_bytes = file_->elements == ElementType::float16 ? 2U : 4U;
  const std::uintmax_t bytes =
      (size(query) + size(key) + size(value) + size(output)) * element_bytes;
  file_->output.write(bytes, [&](H5::H5File& h5) {
    const std::string path = fmt::format("{}/layers/{}", file_->sequence, layer);
    const H5::Group group = create_group(h5, path);
    write_layer_attributes(group, shape, outer, attributes);
    if (attributes.rope && attributes.rope != file_->rope) {
      write_rope(h5, path + "/rope", *attributes.rope);
    }
    const auto write = [&](const std::string& name, const std::vector<Matrix>& heads) {
      write_heads(h5, path + "/" + name, heads, file_->elements);
    };
    write("query", query);
    if (has_cache) {
      write("key", key);
      write("value", value);
    }
    if (!output.empty()) write("output", output);
    file_->layer = path;
    file_->layer_index = layer;
    file_->shapes[layer] = shape;
  });
}

void TraceWriter::write_sink_logit(const std::vector<float>& logits) {
  require(!file_->finished && !file_->layer.empty(), "write_sink_logit: no layer was written");
  const int heads = file_->shape().num_query_heads;
  require(std::ssize(logits) == heads &&
              std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }),
          fmt::format("sink_logit: expected {} finite numbers, one per query head", heads));
  file_->output.write(0, [&](H5::H5File& h5) {
    write_list(h5, file_->layer + "/sink_logit", H5::PredType::IEEE_F32LE, logits.data(),
               {logits.size()});
  });
}

void TraceWriter::write_selected(const SelectedTokens& selection) {
  require(!file_->finished && !file_->layer.empty(), "write_selected: no layer was written");
  require(selection.num_steps() == file_->num_tokens,
          fmt::format("selected: expected the tokens of {} steps", file_->num_tokens));
  const std::vector<std::int32_t> rows = padded_rows(selection);
  const auto tokens = static_cast<hsize_t>(file_->num_tokens);
  file_->output.write(rows.size() * sizeof(std::int32_t), [&](H5::H5File& h5) {
    write_list(h5, file_->layer + "/selected", H5::PredType::STD_I32LE, rows.data(),
               {tokens, rows.size() / tokens});
  });
}

void TraceWriter::write_projection(int layer, const Matrix& projection) {
  const TraceHeader& header = file_->header;
  require(!file_->finished, "write_projection: the trace is closed");
  require(0 <= layer && layer < header.num_layers,
          fmt::format("output_projection: expected a layer in 0..{}, found {}",
                      header.num_layers - 1, layer));
  const LayerShape& shape = file_->shape_of(layer);
  const int rows = shape.num_query_heads * shape.value_dim;
  require(projection.rows() == rows && projection.cols() > 0,
          fmt::format("output_projection: expected [{}, hidden]", rows));
  file_->output.write(file_->bytes_of(projection), [&](H5::H5File& h5) {
    std::string path = "/model";
    for (const std::string& name : {std::string("layers"), fmt::format("{}", layer)}) {
      if (!h5.nameExists(path)) create_group(h5, path);
      path += "/" + name;
    }
    if (!h5.nameExists(path)) create_group(h5, path);
    // One head can be read alone.
    write_matrix(h5, path + "/output_projection", projection, shape.value_dim, file_->elements);
  });
}

void TraceWriter::write_rows(Dataset dataset, const Matrix& rows) {
  const DatasetInfo& info = info_of(dataset);
  const std::string name(info.name);
  require(info.level == Level::layer && info.is_whole(), name + ": expected a matrix of a layer");
  require(!file_->finished && !file_->layer.empty(), name + ": no layer was written");
  require(rows.rows() == file_->num_tokens && rows.cols() > 0,
          fmt::format("{}: expected [{}, any]", name, file_->num_tokens));
  file_->output.write(file_->bytes_of(rows), [&](H5::H5File& h5) {
    constexpr int kRowsPerChunk = 64;
    write_matrix(h5, file_->layer + "/" + name, rows, kRowsPerChunk, file_->elements);
  });
}

void TraceWriter::write_gradients(const std::vector<std::vector<Matrix>>& gradients,
                                  int label_seed) {
  require(!file_->finished && !file_->layer.empty(), "write_gradients: no layer was written");
  require(!gradients.empty() && label_seed >= 0,
          "output_score_grad: expected at least one sample and a seed of at least 0");
  const LayerShape& shape = file_->shape();
  for (const std::vector<Matrix>& heads : gradients) {
    require_shape("output_score_grad", heads, shape.num_query_heads, file_->num_tokens,
                  shape.value_dim);
  }
  const double scale =
      file_->elements == ElementType::float16 ? gradient_scale(largest_of(gradients)) : 1;
  std::vector<std::vector<Matrix>> stored = gradients;
  for (std::vector<Matrix>& heads : stored) {
    for (Matrix& head : heads) head /= static_cast<float>(scale);
  }
  const std::uintmax_t bytes =
      stored.size() * shape.num_query_heads * file_->bytes_of(stored.front().front());
  file_->output.write(bytes, [&](H5::H5File& h5) {
    const std::string path = file_->layer + "/output_score_grad";
    write_samples(h5, path, stored, file_->elements);
    const H5::DataSet dataset = h5.openDataSet(path);
    write_attribute(dataset, "scale", scale);
    write_attribute(dataset, "label_seed", label_seed);
  });
}

void TraceWriter::close() { finish(); }

Trace TraceWriter::open() {
  finish();
  return Trace([&] { return file_->output.root("make it again"); });
}

void TraceWriter::finish() {
  require(!file_->finished, "close: the trace is closed");
  file_->output.write(0, [&](H5::H5File& h5) {
    write_manifest(GroupReader({h5.getFileName(), "/"}, h5.openGroup("/"), "write it again"));
  });
  file_->output.commit();
  file_->finished = true;
}

}  // namespace kvsim
