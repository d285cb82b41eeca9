#include "traces/layer_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "traces/dataset_writer.h"
#include "traces/hdf5/attribute_writer.h"
#include "traces/hdf5/group_writer.h"

namespace kvsim {

void require(bool condition, const std::string& message) {
  if (!condition) throw std::invalid_argument(message);
}

void require_shape(const std::string& name, const std::vector<Matrix>& heads, int num_heads,
                   int tokens, int dim) {
  require(std::ssize(heads) == num_heads && std::ranges::all_of(heads,
                                                                [&](const Matrix& head) {
                                                                  return head.rows() == tokens &&
                                                                         head.cols() == dim;
                                                                }),
          fmt::format("{}: expected {} matrices [{}, {}]", name, num_heads, tokens, dim));
}

LayerShape shape_of_vectors(const std::vector<Matrix>& query, const std::vector<Matrix>& key,
                            const std::vector<Matrix>& value) {
  require(!query.empty() && !key.empty() && !value.empty() && query.size() % key.size() == 0,
          fmt::format("write_layer: expected query heads for each of the KV heads, found {} and {}",
                      query.size(), key.size()));
  LayerShape shape;
  shape.num_query_heads = static_cast<int>(query.size());
  shape.num_kv_heads = static_cast<int>(key.size());
  shape.head_dim = static_cast<int>(key.front().cols());
  shape.value_dim = static_cast<int>(value.front().cols());
  return shape;
}

void write_layer_attributes(const H5::Group& group, const LayerShape& shape,
                            const LayerShape& outer, const LayerAttributes& attributes) {
  for (const auto& [name, number] : shape_attributes()) {
    if (shape.*number != outer.*number) write_attribute(group, name, shape.*number);
  }
  if (attributes.scale.value_or(outer.scale) != outer.scale) {
    write_attribute(group, "scale", *attributes.scale);
  }
  const auto write = [&](const char* name, const std::optional<int>& value) {
    if (value) write_attribute(group, name, *value);
  };
  write("kv_from", attributes.kv_from);
  write("sliding_window", attributes.sliding_window);
  write("attention_chunk", attributes.attention_chunk);
}

void write_rope(H5::H5File& h5, const std::string& group, const Rope& rope) {
  const H5::Group written = create_group(h5, group);
  write_attribute(written, "style", rope.style);
  write_attribute(written, "attention_factor", rope.attention_factor);
  write_list(h5, group + "/inv_freq", H5::PredType::IEEE_F64LE, rope.inverse_frequency.data(),
             {rope.inverse_frequency.size()});
}

}  // namespace kvsim
