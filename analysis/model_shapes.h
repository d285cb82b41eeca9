#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace kvsim {

/// What of a model decides the size of its KV cache and the work per token. The hidden size is
/// query_heads * head_dim in every model of the table.
struct ModelShape {
  std::string name;
  int layers;
  int query_heads;
  int kv_heads;  ///< fewer than query heads if queries are grouped
  int head_dim;  ///< of a key and a value
  std::int64_t parameters;
};

/// The named models, a family at a time. Parameter counts are those of the published weights,
/// embeddings included, tied ones once.
std::span<const ModelShape> model_shapes();

}  // namespace kvsim
