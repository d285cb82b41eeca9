#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/small_trace.h"

namespace kvsim::traces_test {

constexpr int kHidden = 6;
// Not inline: tables of tests use them while they are initialised, and clang may initialise inline
// variables after these.
const std::string kLayer = "/sequences/a/layers/0";
const std::string kGradient = kLayer + "/output_score_grad";
const std::string kActivation = kLayer + "/mlp_activation";
const std::string kProjection = "/model/layers/0/output_projection";

/// [12, hidden], different everywhere and exact in float16.
inline Matrix numbered_projection() { return numbered_heads(1, 12, kHidden, -4).front(); }
inline Matrix numbered_residual() { return numbered_heads(1, kSmallTokens, kHidden, 1).front(); }

/// One logit per query head.
inline std::vector<float> numbered_sinks() { return {-1.5F, 0, 2, 0.1F}; }

/// Each step selects all tokens up to itself.
inline SelectedTokens all_selected() {
  SelectedTokens selected;
  std::vector<std::int32_t> tokens;
  for (int step = 0; step < kSmallTokens; ++step) {
    tokens.push_back(step);
    selected.add(tokens);
  }
  return selected;
}

/// Of a width of its own: nothing else of the layer has to be as wide.
inline Matrix numbered_activation() { return numbered_heads(1, kSmallTokens, 9, -20).front(); }

/// Two samples of four heads.
inline std::vector<std::vector<Matrix>> numbered_gradients() {
  return {numbered_heads(4, kSmallTokens, 3, -8), numbered_heads(4, kSmallTokens, 3, 1)};
}

/// The small trace, whose layer 0 has everything that a trace may hold.
inline void write_full_trace(const std::filesystem::path& file) {
  const TraceHeader header = small_header();
  TraceWriter writer(file, header, ElementType::float16);
  writer.begin_sequence("a", kSmallTokens, 0, "", std::vector<std::int32_t>(kSmallTokens, 7));
  writer.write_token_text(std::vector<std::string>(kSmallTokens, "word"));
  writer.write_spans({{1, 3, "needle"}});
  for (int layer = 0; layer < header.num_layers; ++layer) {
    const LayerNumbers numbers = numbered_layer(header, kSmallTokens, layer);
    writer.write_layer(layer, numbers.query, numbers.key, numbers.value, numbers.output,
                       {.attention_chunk = layer > 0 ? std::nullopt : std::optional<int>(2)});
    if (layer > 0) continue;
    writer.write_sink_logit(numbered_sinks());
    writer.write_selected(all_selected());
    writer.write_projection(layer, numbered_projection());
    for (const DatasetInfo& info : datasets()) {
      if (info.level != Level::layer || !info.is_whole()) continue;
      const bool is_residual = info.id == Dataset::residual;
      writer.write_rows(info.id, is_residual ? numbered_residual() : numbered_activation());
    }
    writer.write_gradients(numbered_gradients(), 7);
  }
  writer.close();
}

}  // namespace kvsim::traces_test
