#include "traces/trace_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "traces/dataset_writer.h"
#include "traces/hdf5/hdf5_output.h"

namespace kvsim {
namespace {

void write_attribute(const H5::Group& group, const std::string& name, int value) {
  group.createAttribute(name, H5::PredType::STD_I64LE, H5::DataSpace())
      .write(H5::PredType::NATIVE_INT, &value);
}

void write_attribute(const H5::Group& group, const std::string& name, double value) {
  group.createAttribute(name, H5::PredType::IEEE_F64LE, H5::DataSpace())
      .write(H5::PredType::NATIVE_DOUBLE, &value);
}

void write_attribute(const H5::Group& group, const std::string& name, const std::string& value) {
  H5::StrType type(H5::PredType::C_S1, H5T_VARIABLE);
  type.setCset(H5T_CSET_UTF8);
  group.createAttribute(name, type, H5::DataSpace()).write(type, value);
}

void require(bool condition, const std::string& message) {
  if (!condition) throw std::invalid_argument(message);
}

void require_shape(const std::string& name, const std::vector<Matrix>& heads, int num_heads,
                   int tokens, int dim) {
  require(heads.size() == static_cast<std::size_t>(num_heads) &&
              std::all_of(
                  heads.begin(), heads.end(),
                  [&](const Matrix& head) { return head.rows() == tokens && head.cols() == dim; }),
          fmt::format("{}: expected {} matrices [{}, {}]", name, num_heads, tokens, dim));
}

}  // namespace

struct TraceWriter::File {
  template <class Place>
  File(const Place& place, const TraceHeader& trace_header, ElementType type)
      : output(place), header(trace_header), elements(type) {
    output.write(0, [&](H5::H5File& h5) { write_header(h5); });
  }

  void write_header(H5::H5File& h5);

  Hdf5Output output;
  TraceHeader header;
  ElementType elements;
  DatasetWriter datasets;
  std::string sequence;  ///< path of the group of the sequence begun last
  int num_tokens = 0;    ///< of that sequence
  bool finished = false;
};

void TraceWriter::File::write_header(H5::H5File& h5) {
  const H5::Group root = h5.openGroup("/");
  write_attribute(root, "kvtrace_version", 1);
  write_attribute(root, "model", header.model);
  write_attribute(root, "num_layers", header.num_layers);
  write_attribute(root, "num_query_heads", header.num_query_heads);
  write_attribute(root, "num_kv_heads", header.num_kv_heads);
  write_attribute(root, "head_dim", header.head_dim);
  write_attribute(root, "value_dim", header.value_dim);
  write_attribute(root, "scale", header.scale);
  write_attribute(root, "dtype",
                  std::string(elements == ElementType::float16 ? "float16" : "float32"));
  if (header.logit_softcap) write_attribute(root, "logit_softcap", *header.logit_softcap);
  if (!header.recorder.empty()) write_attribute(root, "recorder", header.recorder);
  if (header.rope) {
    const H5::Group rope = h5.createGroup("/rope");
    write_attribute(rope, "style", header.rope->style);
    write_attribute(rope, "attention_factor", header.rope->attention_factor);
    const std::vector<double>& frequencies = header.rope->inverse_frequency;
    datasets.write_list(h5, "/rope/inv_freq", H5::PredType::IEEE_F64LE, frequencies.data(),
                        frequencies.size());
  }
  h5.createGroup("/sequences");
}

TraceWriter::TraceWriter(const std::filesystem::path& file, const TraceHeader& header,
                         ElementType elements)
    : file_(std::make_unique<File>(file, header, elements)) {}

TraceWriter::TraceWriter(const TraceHeader& header, ElementType elements)
    : file_(std::make_unique<File>(Hdf5Output::InMemory{Trace::kInMemory}, header, elements)) {}

TraceWriter::~TraceWriter() = default;

void TraceWriter::begin_sequence(const std::string& name, int num_tokens, int prompt_length,
                                 const std::string& source,
                                 const std::vector<std::int32_t>& token_ids) {
  require(!file_->finished, "begin_sequence: the trace is closed");
  require(!name.empty() && name.find('/') == std::string::npos,
          fmt::format("sequence name: expected one without a slash, found \"{}\"", name));
  require(token_ids.empty() || token_ids.size() == static_cast<std::size_t>(num_tokens),
          fmt::format("token_ids: expected {} entries", num_tokens));
  const std::uintmax_t bytes = token_ids.size() * sizeof(std::int32_t);
  file_->output.write(bytes, [&](H5::H5File& h5) {
    file_->sequence = "/sequences/" + name;
    file_->num_tokens = num_tokens;
    const H5::Group group = h5.createGroup(file_->sequence);
    write_attribute(group, "num_tokens", num_tokens);
    write_attribute(group, "prompt_length", prompt_length);
    if (!source.empty()) write_attribute(group, "source", source);
    if (!token_ids.empty()) {
      file_->datasets.write_list(h5, file_->sequence + "/token_ids", H5::PredType::STD_I32LE,
                                 token_ids.data(), token_ids.size());
    }
    h5.createGroup(file_->sequence + "/layers");
  });
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
    h5.createGroup(path);
    DatasetWriter& datasets = file_->datasets;
    datasets.write_list(h5, path + "/start", H5::PredType::STD_I32LE, starts.data(), starts.size());
    datasets.write_list(h5, path + "/end", H5::PredType::STD_I32LE, ends.data(), ends.size());
    datasets.write_texts(h5, path + "/label", labels);
  });
}

void TraceWriter::write_layer(int layer, const std::vector<Matrix>& query,
                              const std::vector<Matrix>& key, const std::vector<Matrix>& value,
                              const std::vector<Matrix>& output,
                              std::optional<int> sliding_window) {
  const TraceHeader& header = file_->header;
  const int tokens = file_->num_tokens;
  require(!file_->finished && tokens > 0, "write_layer: no sequence has begun");
  require_shape("query", query, header.num_query_heads, tokens, header.head_dim);
  require_shape("key", key, header.num_kv_heads, tokens, header.head_dim);
  require_shape("value", value, header.num_kv_heads, tokens, header.value_dim);
  if (!output.empty()) {
    require_shape("output", output, header.num_query_heads, tokens, header.value_dim);
  }
  const auto size = [](const std::vector<Matrix>& heads) {
    return heads.size() * (heads.empty() ? 0 : heads.front().size());
  };
  const auto element_bytes = file_->elements == ElementType::float16 ? 2U : 4U;
  const std::uintmax_t bytes =
      (size(query) + size(key) + size(value) + size(output)) * element_bytes;
  file_->output.write(bytes, [&](H5::H5File& h5) {
    const std::string path = fmt::format("{}/layers/{}", file_->sequence, layer);
    const H5::Group group = h5.createGroup(path);
    if (sliding_window) write_attribute(group, "sliding_window", *sliding_window);
    const auto write = [&](const std::string& name, const std::vector<Matrix>& heads) {
      file_->datasets.write_heads(h5, path + "/" + name, heads, file_->elements);
    };
    write("query", query);
    write("key", key);
    write("value", value);
    if (!output.empty()) write("output", output);
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
    write_attribute(h5.openGroup("/"), "trace_id", file_->datasets.trace_id());
  });
  file_->output.commit();
  file_->finished = true;
}

}  // namespace kvsim
