#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "traces/layer_shape.h"

namespace kvsim {

/// A layer that reads the cache of another one.
struct ReadingLayer {
  int index = 0;  ///< in the model
  int num_query_heads = 0;
  std::vector<float> sink_logit = {};  ///< one per query head, or empty
};

/// A layer of a model with a cache of its own, as a trace has it.
struct ModelLayer {
  int index = 0;  ///< in the model
  LayerShape shape;
  std::optional<int> sliding_window;
  std::optional<int> attention_chunk;
  std::vector<float> sink_logit;  ///< one per query head, or empty
  std::vector<ReadingLayer> readers = {};
  /// W_O, [query heads * value_dim, hidden] row by row, for policies that need it; null: not known.
  std::shared_ptr<const float> output_projection = {};
  int hidden = 0;  ///< its columns
};

/// The attention of a model.
struct ModelShape {
  std::vector<ModelLayer> layers;  ///< in the order of the model
  std::optional<float> logit_softcap;
  int element_bytes = 4;  ///< of keys and values: 2 or 4
};

}  // namespace kvsim
