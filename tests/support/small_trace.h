#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "traces/trace_writer.h"

namespace kvsim::traces_test {

/// The numbers of one layer: exact in float16, different in every head.
struct LayerNumbers {
  std::vector<Matrix> query, key, value, output;
};

inline std::vector<Matrix> numbered_heads(int heads, int tokens, int dim, float offset) {
  std::vector<Matrix> matrices;
  matrices.reserve(heads);
  for (int head = 0; head < heads; ++head) {
    matrices.emplace_back(Matrix::NullaryExpr(tokens, dim, [&](Eigen::Index row, Eigen::Index col) {
      return offset + static_cast<float>(head * 32 + row * dim + col) / 8;
    }));
  }
  return matrices;
}

inline LayerNumbers numbered_layer(const TraceHeader& header, int tokens, int layer) {
  const auto offset = static_cast<float>(layer * 64);
  return {
      numbered_heads(header.shape.num_query_heads, tokens, header.shape.head_dim, offset),
      numbered_heads(header.shape.num_kv_heads, tokens, header.shape.head_dim, offset + 16),
      numbered_heads(header.shape.num_kv_heads, tokens, header.shape.value_dim, offset - 16),
      numbered_heads(header.shape.num_query_heads, tokens, header.shape.value_dim, offset - 32)};
}

constexpr int kSmallTokens = 5;

/// Two layers, four query heads on two KV heads, keys of 4 numbers and values of 3.
inline TraceHeader small_header() {
  TraceHeader header;
  header.model = "small";
  header.num_layers = 2;
  header.shape.num_query_heads = 4;
  header.shape.num_kv_heads = 2;
  header.shape.head_dim = 4;
  header.shape.value_dim = 3;
  header.shape.scale = 0.5;
  header.recorder = "a test";
  header.shape.rope = Rope{{1, 0.125}, "half", 1};
  return header;
}

/// Writes one sequence "a" with both layers; layer 1 has a sliding window of 3.
inline void write_small_trace(const std::filesystem::path& file, const TraceHeader& header,
                              ElementType elements = ElementType::float16,
                              const std::vector<Span>& spans = {}) {
  TraceWriter writer(file, header, elements);
  writer.begin_sequence("a", kSmallTokens, 2, "a source", {7, 8, 9, 7, 8});
  if (!spans.empty()) writer.write_spans(spans);
  for (int layer = 0; layer < header.num_layers; ++layer) {
    const LayerNumbers numbers = numbered_layer(header, kSmallTokens, layer);
    writer.write_layer(layer, numbers.query, numbers.key, numbers.value, numbers.output,
                       {.sliding_window = layer == 1 ? std::optional<int>(3) : std::nullopt});
  }
  writer.close();
}

}  // namespace kvsim::traces_test
