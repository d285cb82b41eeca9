#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace kvsim {

/// The numbers of a model that determine the size of its KV cache and the work per token. The
/// hidden size of every model in the table is query_heads * head_dim.
struct ModelShape {
  std::string name;
  int layers;
  int query_heads;
  int kv_heads;  ///< fewer than query_heads under grouped queries
  int head_dim;  ///< of keys and values
  std::int64_t parameters;
};

/// The named models, by family. Parameter counts are those of the published weights, embeddings
/// included and tied embeddings counted once.
std::span<const ModelShape> model_shapes();

}  // namespace kvsim
