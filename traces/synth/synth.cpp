#include "traces/synth/synth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "traces/synth/synth_downstream.h"
#include "traces/synth/synth_head.h"
#include "traces/synth/synth_layer.h"
#include "traces/synth/synth_options.h"

namespace kvsim {
namespace {

std::string describe(const SynthOptions& options) {
  std::string text = fmt::format(
      "seed={} sinks={} sink_strength={} local_strength={} local_decay={} heavy_strength={} "
      "heavy_exponent={} retrieval_share={} retrieval_strength={} retrieval_period={} drift={} "
      "noise={}",
      options.seed, options.sinks, options.sink_strength, options.local_strength,
      options.local_decay, options.heavy_strength, options.heavy_exponent, options.retrieval_share,
      options.retrieval_strength, options.retrieval_period, options.drift, options.noise);
  if (options.rope_base != 0) text += fmt::format(" rope_base={}", options.rope_base);
  if (options.sink_logit) text += fmt::format(" sink_logit={}", *options.sink_logit);
  if (options.attention_chunk > 0) {
    text += fmt::format(" attention_chunk={}", options.attention_chunk);
  }
  return text;
}

/// As models of the Llama family rotate: all dimensions, the k-th pair by base^(-2k/d) per
/// position.
Rope make_rope(double base, int head_dim) {
  Rope rope{.inverse_frequency = {}, .style = "half"};
  for (int pair = 0; pair < head_dim / 2; ++pair) {
    rope.inverse_frequency.push_back(std::pow(base, -2.0 * pair / head_dim));
  }
  return rope;
}

TraceHeader make_header(const SynthOptions& options) {
  TraceHeader header;
  header.model = "synthetic";
  header.recorder = "kvsim synth";
  header.num_layers = options.layers;
  header.shape.num_query_heads = options.query_heads;
  header.shape.num_kv_heads = options.kv_heads;
  header.shape.head_dim = options.head_dim;
  header.shape.value_dim = options.value_dim == 0 ? options.head_dim : options.value_dim;
  header.shape.scale = 1 / std::sqrt(options.head_dim);
  if (options.rope_base != 0) header.shape.rope = make_rope(options.rope_base, options.head_dim);
  return header;
}

void write_layer(TraceWriter& writer, const SynthOptions& options, int value_dim, int layer,
                 const SynthLayer& made) {
  writer.write_layer(layer, made.query, made.key, made.value, made.output,
                     {.attention_chunk = made.chunk});
  if (!made.sinks.empty()) writer.write_sink_logit(made.sinks);
  const SynthDownstream downstream(options, value_dim, layer);
  if (options.hidden > 0) writer.write_projection(layer, downstream.projection());
  for (const SynthDownstream::Rows& rows : SynthDownstream::all_rows()) {
    if (options.*rows.width > 0) writer.write_rows(rows.dataset, rows.make(options, layer));
  }
  if (options.gradient_samples > 0) writer.write_gradients(downstream.gradients(), 0);
}

void write_sequence(TraceWriter& writer, const SynthOptions& options,
                    const SynthProgress& progress) {
  const TraceHeader header = make_header(options);
  const std::vector<std::int32_t> text = synth_text(options);
  writer.begin_sequence("synthetic", options.tokens, options.prompt_length, describe(options),
                        text);
  for (int layer = 0; layer < options.layers; ++layer) {
    const auto heads_done = [&](double heads) {
      if (progress) progress((layer + heads / options.query_heads) / options.layers);
    };
    write_layer(writer, options, header.shape.value_dim, layer,
                synth_layer(options, header, text, layer, heads_done));
  }
}

}  // namespace

void synthesize(const std::filesystem::path& file, const SynthOptions& options,
                const SynthProgress& progress) {
  check_options(options);
  TraceWriter writer(file, make_header(options), options.elements);
  write_sequence(writer, options, progress);
  writer.close();
}

std::size_t synth_memory(const SynthOptions& options) {
  check_options(options);
  const auto size = [](int number) { return static_cast<std::size_t>(number); };
  const std::size_t tokens = size(options.tokens);
  const std::size_t keys = size(options.head_dim);
  const std::size_t values = size(options.value_dim == 0 ? options.head_dim : options.value_dim);
  const std::size_t heads = size(options.query_heads);
  const std::size_t stored =
      heads * (keys + (options.output ? values : 0)) + size(options.kv_heads) * (keys + values);
  // In double precision: four parts of a head, keys and values for its outputs, a step's weights.
  const std::size_t work = size(std::min(options.threads, options.kv_heads)) *
                           (4 * keys + (options.output ? keys + values + 4 : 0));
  // Each of the others has a copy that is written; gradients are scaled in one more.
  std::size_t others = std::max(2 * heads * values * size(options.hidden),
                                3 * size(options.gradient_samples) * heads * tokens * values);
  for (const SynthDownstream::Rows& rows : SynthDownstream::all_rows()) {
    others = std::max(others, 2 * tokens * size(options.*rows.width));
  }
  return (tokens * stored + others) * sizeof(float) + tokens * work * sizeof(double);
}

Trace synthesize(const SynthOptions& options, const SynthProgress& progress) {
  check_options(options);
  TraceWriter writer(make_header(options), options.elements);
  write_sequence(writer, options, progress);
  return writer.open();
}

}  // namespace kvsim
