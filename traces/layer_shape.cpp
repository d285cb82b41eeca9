#include "traces/layer_shape.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "traces/hdf5/group_reader.h"
#include "traces/hdf5/hdf5_type.h"
#include "traces/integrity/digest_attribute.h"

namespace kvsim {
namespace {

const std::string kRecordRopeAgain = "record the file again, or without rope";

Rope rope_of(const GroupReader& group, int head_dim) {
  Rope rope;
  const AttributeReader attributes = group.attributes();
  rope.style = attributes.text("style");
  if (rope.style != "half" && rope.style != "interleaved") {
    group.place().attribute("style").fail("half or interleaved", in_quotes(rope.style),
                                          group.fix());
  }
  rope.attention_factor = attributes.positive("attention_factor");

  const H5::DataSet dataset = group.dataset("inv_freq");
  const Place place = group.place().child("inv_freq");
  if (!is_float64(dataset.getDataType())) {
    place.fail("float64", type_name(dataset.getDataType()), group.fix());
  }
  const H5::DataSpace space = dataset.getSpace();
  const hssize_t length = space.getSimpleExtentNpoints();
  if (space.getSimpleExtentNdims() != 1 || length < 1 || length > head_dim / 2) {
    place.fail(fmt::format("shape [rotary_dim / 2], at most [{}]", head_dim / 2), shape_name(space),
               group.fix());
  }
  rope.inverse_frequency = read_list<double>(dataset, place, group.fix());
  for (hssize_t index = 0; index < length; ++index) {
    if (!std::isfinite(rope.inverse_frequency[index])) {
      place.fail("finite numbers", fmt::format("{} at [{}]", rope.inverse_frequency[index], index),
                 group.fix());
    }
  }
  return rope;
}

}  // namespace

const std::map<std::string, int LayerShape::*>& shape_attributes() {
  static const std::map<std::string, int LayerShape::*> attributes = {
      {"num_query_heads", &LayerShape::num_query_heads},
      {"num_kv_heads", &LayerShape::num_kv_heads},
      {"head_dim", &LayerShape::head_dim},
      {"value_dim", &LayerShape::value_dim}};
  return attributes;
}

LayerShape read_shape(const GroupReader& group, LayerShape shape) {
  const AttributeReader attributes = group.attributes();
  for (const auto& [name, number] : shape_attributes()) {
    if (attributes.has(name)) shape.*number = attributes.integer(name, 1);
  }
  if (attributes.has("scale")) shape.scale = attributes.positive("scale");
  if (shape.num_query_heads % shape.num_kv_heads != 0) {
    group.place()
        .attribute("num_query_heads")
        .fail(fmt::format("a multiple of num_kv_heads = {}", shape.num_kv_heads),
              fmt::format("{}", shape.num_query_heads), group.fix());
  }
  shape.rope = read_rope(group, shape.head_dim, std::move(shape.rope));
  return shape;
}

std::optional<Rope> read_rope(const GroupReader& group, int head_dim, std::optional<Rope> outer) {
  if (group.contains("rope")) return rope_of(group.group("rope", kRecordRopeAgain), head_dim);
  const std::size_t most = static_cast<std::size_t>(head_dim) / 2;
  if (outer && outer->inverse_frequency.size() > most) {
    group.place().child("rope").fail(
        fmt::format("at most {} frequencies, as head_dim is {}", most, head_dim),
        fmt::format("the {} of the file or sequence", outer->inverse_frequency.size()),
        kRecordRopeAgain);
  }
  return outer;
}

void require_same_heads(const LayerShape& shape, const LayerShape& other, const Place& place) {
  for (const auto& [name, number] : shape_attributes()) {
    if (shape.*number == other.*number) continue;
    place.attribute(name).fail(
        fmt::format("{}, as of the layer in another sequence", other.*number),
        fmt::format("{}", shape.*number), "record the sequences into two files");
  }
}

}  // namespace kvsim
