#include "python/engine/model_shape.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

namespace kvsim::python {
namespace {

/// Nothing if it is not there, or None.
std::optional<int> tokens_of(const nb::dict& given, const char* name) {
  if (!given.contains(name) || given[name].is_none()) return {};
  return take<int>(given, name);
}

using Projection = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

/// The layer keeps the array alive.
void add_projection(const nb::handle& given, ModelLayer& layer) {
  const int rows = layer.shape.num_query_heads * layer.shape.value_dim;
  Projection array;
  require(nb::try_cast(given, array) && static_cast<int>(array.shape(0)) == rows,
          fmt::format("output_projection of layer {}: expected float32 [{}, hidden]", layer.index,
                      rows));
  layer.hidden = static_cast<int>(array.shape(1));
  layer.output_projection = {array.data(), [array](const float*) mutable {
                               const nb::gil_scoped_acquire acquired;
                               array = {};
                             }};
}

ModelLayer layer_of(const nb::dict& given) {
  ModelLayer layer;
  layer.index = take<int>(given, "index");
  for (const auto& [name, number] : shape_attributes()) {
    layer.shape.*number = take<int>(given, name.c_str());
  }
  layer.shape.scale = take<double>(given, "scale");
  const LayerShape& shape = layer.shape;
  require(shape.head_dim > 0 && shape.value_dim > 0, "shape: expected dimensions");
  require(shape.num_kv_heads > 0 && shape.num_query_heads > 0 &&
              shape.num_query_heads % shape.num_kv_heads == 0,
          fmt::format("shape: expected a multiple of {} KV heads, found {} query heads",
                      shape.num_kv_heads, shape.num_query_heads));
  layer.sliding_window = tokens_of(given, "window");
  layer.attention_chunk = tokens_of(given, "chunk");
  layer.sink_logit = take(given, "sinks", std::optional(std::vector<float>()));
  require(layer.sink_logit.empty() || std::ssize(layer.sink_logit) == shape.num_query_heads,
          fmt::format("shape: expected {} sink logits of layer {}, found {}", shape.num_query_heads,
                      layer.index, layer.sink_logit.size()));
  for (const nb::handle reader : take(given, "readers", std::optional(nb::list()))) {
    const auto of_reader = nb::cast<nb::dict>(reader);
    ReadingLayer& added = layer.readers.emplace_back();
    added.index = take<int>(of_reader, "index");
    added.num_query_heads = take<int>(of_reader, "num_query_heads");
    added.sink_logit = take(of_reader, "sinks", std::optional(std::vector<float>()));
    require(
        added.num_query_heads > 0 && added.num_query_heads % shape.num_kv_heads == 0 &&
            added.sink_logit.empty() == layer.sink_logit.empty(),
        fmt::format("shape: layer {} cannot read the cache of layer {}", added.index, layer.index));
  }
  if (given.contains("output_projection") && !given["output_projection"].is_none()) {
    add_projection(given["output_projection"], layer);
  }
  if (given.contains("rope")) layer.shape.rope = rope_of(given["rope"]);
  return layer;
}

}  // namespace

ModelShape shape_of(const nb::dict& given) {
  ModelShape shape;
  for (const nb::handle layer : take<nb::list>(given, "layers")) {
    shape.layers.push_back(layer_of(nb::cast<nb::dict>(layer)));
  }
  require(!shape.layers.empty(), "shape: expected layers");
  if (given.contains("softcap")) {
    shape.logit_softcap = nb::cast<std::optional<float>>(given["softcap"]);
  }
  shape.element_bytes = take<int>(given, "element_bytes", 4);
  return shape;
}

std::optional<Rope> rope_of(const nb::handle& given) {
  if (given.is_none()) return {};
  return Rope{nb::cast<std::vector<double>>(given["inv_freq"]),
              nb::cast<std::string>(given["style"]), nb::cast<double>(given["attention_factor"])};
}

nb::object dict_of(const std::optional<Rope>& rope) {
  if (!rope) return nb::none();
  nb::dict found;
  found["inv_freq"] = nb::cast(rope->inverse_frequency);
  found["style"] = rope->style;
  found["attention_factor"] = rope->attention_factor;
  return found;
}

}  // namespace kvsim::python
