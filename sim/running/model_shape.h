#pragma once

#include <optional>
#include <vector>

#include "traces/layer_shape.h"

namespace kvsim {

/// A layer of a model, as a trace has it.
struct ModelLayer {
  int index = 0;  ///< in the model
  LayerShape shape;
  std::optional<int> sliding_window;
  std::optional<int> attention_chunk;
  std::vector<float> sink_logit;  ///< one per query head, or empty
};

/// The attention of a model.
struct ModelShape {
  std::vector<ModelLayer> layers;  ///< those that attend, in the order of the model
  std::optional<float> logit_softcap;
  int element_bytes = 4;  ///< of keys and values: 2 or 4
};

}  // namespace kvsim
