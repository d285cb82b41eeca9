#pragma once

#include <map>
#include <optional>
#include <vector>

#include "traces/unit.h"

namespace kvsim {

/// The attention of a model, as the header of a trace has it.
struct ModelShape {
  std::vector<int> layers;  ///< those that attend, in the order of the model
  int query_heads = 1;
  int kv_heads = 1;
  int head_dim = 1;
  int value_dim = 1;
  float scale = 1;
  std::optional<float> logit_softcap;
  std::map<int, int> sliding_windows;             ///< by layer
  std::map<int, int> attention_chunks;            ///< by layer
  std::map<int, std::vector<float>> sink_logits;  ///< by layer, one per query head
  std::optional<Rope> rope;
  int element_bytes = 4;  ///< of keys and values: 2 or 4

  int group_size() const { return query_heads / kv_heads; }
};

}  // namespace kvsim
