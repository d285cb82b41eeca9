#include "tests/faults/inputs/trace_numbers.h"

#include <unistd.h>

#include <fstream>
#include <sstream>

#include "traces/sha256.h"
#include "traces/synth/synth_downstream.h"

namespace kvsim::faults {
namespace {

class Digest {
 public:
  void add(const std::string& text) { add(text.data(), text.size()); }
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void add(Number number) { add(&number, sizeof number); }
  template <class Number>
  void add(const std::optional<Number>& number) {
    add(number.has_value());
    if (number) add(*number);
  }
  void add(const Matrix& matrix) {
    add(matrix.rows());
    add(matrix.cols());
    add(matrix.data(), static_cast<std::size_t>(matrix.size()) * sizeof(float));
  }
  void add(const Span& span) {
    add(span.start);
    add(span.end);
    add(span.label);
  }
  template <class Item>
  void add(const std::vector<Item>& items) {
    add(items.size());
    for (const Item& item : items) add(item);
  }

  std::string hex() { return sha_.finish(); }

 private:
  void add(const void* bytes, std::size_t count) { sha_.update(bytes, count); }

  Sha256 sha_;
};

void add_shape(Digest& digest, const LayerShape& shape) {
  for (const auto& [name, number] : shape_attributes()) digest.add(shape.*number);
  digest.add(shape.scale);
  digest.add(shape.rope.has_value());
  if (!shape.rope) return;
  digest.add(shape.rope->inverse_frequency);
  digest.add(shape.rope->style);
  digest.add(shape.rope->attention_factor);
}

void add_header(Digest& digest, const TraceHeader& header) {
  digest.add(header.num_layers);
  digest.add(header.logit_softcap);
  add_shape(digest, header.shape);
}

void add_layer(Digest& digest, const Trace& trace, const std::string& sequence,
               const LayerInfo& layer) {
  digest.add(layer.index);
  digest.add(layer.kv_from);
  add_shape(digest, layer.shape);
  digest.add(layer.kv_heads);
  digest.add(layer.sliding_window);
  digest.add(layer.attention_chunk);
  for (const int kv_head : layer.kv_heads) {
    const UnitName name{sequence, layer.index, kv_head};
    const Unit unit = trace.read_unit(name);
    digest.add(unit.query);
    digest.add(unit.key);
    digest.add(unit.value);
    digest.add(unit.sink_logit);
    digest.add(unit.output_score_grad);
    digest.add(unit.output_projection);
    digest.add(unit.residual_square);
    digest.add(unit.token_ids);
    digest.add(unit.token_text);
    if (layer.has_output) digest.add(trace.read_output(name));
  }
  for (const auto& [dataset, shape] : layer.recorded) {
    const DatasetInfo& info = info_of(dataset);
    if (info.level != Level::layer || !info.is_whole()) continue;
    trace.read_rows(dataset, sequence, layer.index, [&](const Matrix& rows) { digest.add(rows); });
  }
}

}  // namespace

std::string numbers_of(const Trace& trace) {
  Digest digest;
  add_header(digest, trace.header());
  for (const SequenceInfo& sequence : trace.sequences()) {
    digest.add(sequence.name);
    digest.add(sequence.num_tokens);
    digest.add(sequence.prompt_length);
    digest.add(sequence.spans);
    digest.add(sequence.layers.size());
    for (const LayerInfo& layer : sequence.layers) {
      add_layer(digest, trace, sequence.name, layer);
    }
  }
  return digest.hex();
}

std::string seed_trace(bool is_tiny) {
  SynthOptions options;
  options.tokens = 4;
  options.layers = 1;
  options.query_heads = is_tiny ? 1 : 2;
  options.kv_heads = is_tiny ? 1 : 2;
  options.head_dim = 4;
  if (!is_tiny) {
    for (const SynthDownstream::Rows& rows : SynthDownstream::all_rows()) options.*rows.width = 3;
    options.gradient_samples = 1;
    options.rope_base = 10000;
    options.sink_logit = 1;
    options.attention_chunk = 3;
  }
  // A file, as images in memory have no checksums.
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("kvsim-seed-" + std::to_string(getpid()) + ".h5");
  synthesize(file, options);
  std::ostringstream bytes;
  bytes << std::ifstream(file, std::ios::binary).rdbuf();
  std::filesystem::remove(file);
  return bytes.str();
}

}  // namespace kvsim::faults
