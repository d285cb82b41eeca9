#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "sim/running/running_caches.h"
#include "tests/support/units.h"

namespace kvsim::running_test {

inline constexpr int kTokens = 70;
inline constexpr int kPrompt = 41;
inline constexpr int kChunk = 30;

/// Units of two layers of two KV heads as a model of two query heads per KV head computes them.
struct Text {
  Text() = default;
  /// With learned sinks in both layers and chunks in the first.
  explicit Text(float sink) {
    for (Unit& unit : units) {
      unit.sink_logit = {sink, sink + static_cast<float>(unit.name.kv_head)};
      if (unit.name.layer == units[0].name.layer) unit.attention_chunk = kChunk;
    }
  }

  /// In which each layer selects so many tokens at a step.
  static Text selecting(int count) {
    Text text;
    for (std::size_t i = 0; i < text.units.size(); ++i) {
      const test_support::UnitShape shape{.tokens = kTokens, .selected = count};
      text.units[i].selected = test_support::random_unit(shape, i / 2).selected;
    }
    return text;
  }

  std::vector<Unit> units = test_support::random_units(
      {.tokens = kTokens, .head_dim = 8, .value_dim = 6, .group = 2, .prompt_length = kPrompt}, 5);

  ModelShape shape() const {
    ModelShape shape = plain_shape();
    if (units[0].sink_logit.empty()) return shape;
    shape.layers[0].attention_chunk = kChunk;
    for (std::size_t i = 0; i < units.size(); ++i) {
      std::vector<float>& sinks = shape.layers[i / 2].sink_logit;
      sinks.insert(sinks.end(), units[i].sink_logit.begin(), units[i].sink_logit.end());
    }
    return shape;
  }

  ModelShape plain_shape() const {
    const LayerShape shape{.num_query_heads = 4,
                           .num_kv_heads = 2,
                           .head_dim = 8,
                           .value_dim = 6,
                           .scale = units[0].scale,
                           .rope = units[0].rope};
    return {.layers = {{units[0].name.layer, shape}, {units[2].name.layer, shape}}};
  }
};

inline RunningCaches caches_of(const Text& text, const Configuration& configuration,
                               const ReplayOptions& options) {
  return RunningCaches(
      configuration, text.shape(),
      {text.units[0].name.sequence, options.protocol.mode == Mode::prefill ? kPrompt : 0, kTokens},
      options);
}

/// Rows first .. first + count - 1 of both heads of a layer.
struct Rows {
  std::vector<float> query, key, value;
  SelectedTokens selected;
  LayerRows rows;

  Rows(std::span<const Unit> heads, int first, int count) {
    const auto add = [&](std::vector<float>& to, const Matrix& from) {
      const Matrix part = from.middleRows(first, count);
      to.insert(to.end(), part.data(), part.data() + part.size());
    };
    for (const Unit& head : heads) {
      for (const Matrix& group : head.query) add(query, group);
      add(key, head.key);
      add(value, head.value);
    }
    const auto stride = [&](const Matrix& matrix) {
      return static_cast<std::size_t>(count * matrix.cols());
    };
    rows = {count,
            query.data(),
            key.data(),
            value.data(),
            stride(heads[0].query[0]),
            stride(heads[0].key),
            stride(heads[0].value)};
    if (!heads[0].selected) return;
    for (int step = first; step < first + count; ++step) {
      selected.add(heads[0].selected->at(step));
    }
    rows.selected = &selected;
  }
};

/// Feeds the text, the first piece of `first` tokens and the others of `piece`. Returns the outputs
/// of each layer, [tokens, 4, 6]; 0 where the caches have waited.
inline std::vector<std::vector<float>> feed(const Text& text, RunningCaches& caches, int first,
                                            int piece) {
  std::vector<std::vector<float>> outputs(2, std::vector<float>(kTokens * 4 * 6));
  for (int begin = 0, end = first; begin < kTokens;
       begin = end, end = std::min(kTokens, end + piece)) {
    for (std::size_t layer = 0; layer < 2; ++layer) {
      const Rows rows(std::span(text.units).subspan(2 * layer, 2), begin, end - begin);
      caches.advance(text.units[2 * layer].name.layer, rows.rows,
                     outputs[layer].data() + static_cast<std::ptrdiff_t>(begin) * 4 * 6);
    }
    caches.end_forward();
  }
  return outputs;
}

}  // namespace kvsim::running_test
