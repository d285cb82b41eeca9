#pragma once

#include <map>
#include <optional>
#include <string>

#include "traces/unit.h"

namespace kvsim {

class GroupReader;
struct Place;

/// How many heads of which size a layer has, and how they attend.
struct LayerShape {
  int num_query_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;          ///< numbers in a query and a key
  int value_dim = 0;         ///< numbers in a value
  double scale = 1;          ///< of logits: Unit::scale
  std::optional<Rope> rope;  ///< if the trace says how keys were rotated

  int group_size() const { return num_query_heads / num_kv_heads; }
  bool operator==(const LayerShape&) const = default;
};

/// The attributes of a LayerShape that are whole numbers, by their names in the file.
const std::map<std::string, int LayerShape::*>& shape_attributes();

/// `shape` with what the attributes of the group, and the group `rope` in it, say in its place.
/// Throws DataError.
LayerShape read_shape(const GroupReader& group, LayerShape shape);

/// The rotation that the group `rope` in the group says, or else `outer`. `head_dim`: the largest
/// that is rotated. Throws DataError.
std::optional<Rope> read_rope(const GroupReader& group, int head_dim, std::optional<Rope> outer);

/// Throws DataError unless the layer has as many heads of the same size as in another sequence.
void require_same_heads(const LayerShape& shape, const LayerShape& other, const Place& place);

}  // namespace kvsim
