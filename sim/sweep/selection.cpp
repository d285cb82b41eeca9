#include "sim/sweep/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/base/errors.h"
#include "sim/base/nearest.h"

namespace kvsim {
namespace {

template <class T>
bool selects(const std::vector<T>& wanted, const T& item) {
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), item) != wanted.end();
}

void check_sequences(const Trace& trace, const std::vector<std::string>& wanted) {
  std::vector<std::string> names;
  for (const SequenceInfo& sequence : trace.sequences()) names.push_back(sequence.name);
  for (const std::string& name : wanted) {
    if (!selects(names, name)) {
      throw UsageError(fmt::format("--sequences: {} has no sequence '{}'; did you mean '{}'?",
                                   trace.file().string(), name, nearest(name, names)));
    }
  }
}

void check_indices(const Trace& trace, const char* option, const std::vector<int>& wanted,
                   const std::set<int>& there) {
  for (const int index : wanted) {
    if (!there.contains(index)) {
      throw UsageError(fmt::format("{}: {} is not in {}; there are: {}", option, index,
                                   trace.file().string(), fmt::join(there, ", ")));
    }
  }
}

/// The shape of the layer, with the query heads of all layers that read its cache.
LayerShape shape_of_units(const SequenceInfo& sequence, const LayerInfo& layer) {
  LayerShape shape = layer.shape;
  for (const LayerInfo& other : sequence.layers) {
    if (other.kv_from == layer.index) shape.num_query_heads += other.shape.num_query_heads;
  }
  return shape;
}

}  // namespace

std::vector<SelectedUnit> select_units(const Trace& trace, const Selection& selection) {
  check_sequences(trace, selection.sequences);
  std::vector<SelectedUnit> units;
  std::set<int> layers;
  std::set<int> kv_heads;
  for (const SequenceInfo& sequence : trace.sequences()) {
    if (!selects(selection.sequences, sequence.name)) continue;
    for (const LayerInfo& layer : sequence.layers) {
      if (layer.kv_from) continue;  // its queries are in the units of that layer
      layers.insert(layer.index);
      kv_heads.insert(layer.kv_heads.begin(), layer.kv_heads.end());
      if (!selects(selection.layers, layer.index)) continue;
      for (const int kv_head : layer.kv_heads) {
        if (!selects(selection.kv_heads, kv_head)) continue;
        units.push_back({.name = {sequence.name, layer.index, kv_head},
                         .num_tokens = sequence.num_tokens,
                         .prompt_length = sequence.prompt_length,
                         .shape = shape_of_units(sequence, layer),
                         .vectors = vectors_of(layer),
                         .sliding_window = layer.sliding_window,
                         .attention_chunk = layer.attention_chunk,
                         .most_selected = layer.width(Dataset::selected)});
      }
    }
  }
  check_indices(trace, "--layers", selection.layers, layers);
  check_indices(trace, "--heads", selection.kv_heads, kv_heads);
  if (layers.empty() || kv_heads.empty()) {
    throw DataError(
        fmt::format("{}: expected at least one recorded head, found none", trace.file().string()));
  }
  if (units.empty()) {
    throw UsageError(fmt::format("nothing of {} is selected", trace.file().string()));
  }
  return units;
}

VectorShape vectors_of(const LayerInfo& layer) {
  return {.head_dim = layer.shape.head_dim,
          .value_dim = layer.shape.value_dim,
          .key_bytes = layer.key_bytes,
          .value_bytes = layer.value_bytes};
}

const SequenceInfo& sequence_info(const Trace& trace, const UnitName& unit) {
  return *std::find_if(trace.sequences().begin(), trace.sequences().end(),
                       [&](const SequenceInfo& info) { return info.name == unit.sequence; });
}

const LayerInfo& layer_info(const Trace& trace, const UnitName& unit) {
  const std::vector<LayerInfo>& layers = sequence_info(trace, unit).layers;
  return *std::find_if(layers.begin(), layers.end(),
                       [&](const LayerInfo& info) { return info.index == unit.layer; });
}

}  // namespace kvsim
