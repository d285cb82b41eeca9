#include "traces/trace_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "traces/integrity/manifest.h"
#include "traces/selected_dataset.h"

namespace kvsim {

std::pair<const SequenceInfo*, const LayerInfo*> Trace::File::find(const std::string& name,
                                                                   int index) const {
  const Place place{path.string(), "/sequences"};
  const auto sequence = std::find_if(sequences.begin(), sequences.end(),
                                     [&](const auto& info) { return info.name == name; });
  if (sequence == sequences.end()) {
    std::vector<std::string> names;
    for (const SequenceInfo& info : sequences) names.push_back(in_quotes(info.name));
    place.fail(fmt::format("one of {}", fmt::join(names, ", ")), in_quotes(name));
  }
  const auto layer = std::find_if(sequence->layers.begin(), sequence->layers.end(),
                                  [&](const auto& info) { return info.index == index; });
  if (layer == sequence->layers.end()) {
    place.child(name).child("layers").fail(fmt::format("layer {}", index),
                                           "nothing recorded of it");
  }
  return {&*sequence, &*layer};
}

std::pair<const SequenceInfo*, const LayerInfo*> Trace::File::find(const UnitName& name) const {
  const auto [sequence, layer] = find(name.sequence, name.layer);
  if (!std::binary_search(layer->kv_heads.begin(), layer->kv_heads.end(), name.kv_head)) {
    const Place place = layer_place(path, name);
    if (layer->kv_from) {
      place.fail("a layer with keys and values of its own",
                 fmt::format("one that reads those of layer {}", *layer->kv_from),
                 fmt::format("its queries are in the units of layer {}", *layer->kv_from));
    }
    place.fail(fmt::format("KV head {}", name.kv_head), "nothing recorded of it");
  }
  return {sequence, layer};
}

void Trace::File::open(const GroupReader& group) {
  root = group;
  const int version = read_version(*root);
  if (version >= 2) root->refuse_variable_strings();
  header = read_header(*root);
  header.version = version;
  sequences = read_sequences(*root, header);
  if (version >= 2) manifest = check_manifest(*root);
}

void Trace::File::identify() {
  id = header.version >= 2 ? check_trace_id(*root, manifest)
                           : root->attributes().optional_text("trace_id");
}

std::vector<Matrix> Trace::File::projection(const UnitName& name, const LayerShape& shape) {
  const auto dataset = with_hdf5([&] {
    auto opened = open_projection(*root, shape, name.layer);
    return ClosedUnderLock<HeadDataset>(opened ? new HeadDataset(*opened) : nullptr);
  });
  if (!dataset) return {};
  cache.check_projection(name.layer, *dataset);
  return read_projection(*dataset, shape, name);
}

std::shared_ptr<const SelectedTokens> Trace::File::selection(const SequenceInfo& sequence,
                                                             const LayerInfo& layer) {
  if (!layer.has(Dataset::selected)) return nullptr;
  return cache.selection(sequence.name, layer.index, [&] {
    return with_hdf5([&] {
      return read_selected(layer_group(*root, sequence, layer), layer, sequence.num_tokens);
    });
  });
}

void Trace::File::fail_of_damage(const H5::Exception& error) const {
  Place{path.string(), ""}.fail("a sound HDF5 file", "damage: " + error.getDetailMsg(),
                                "copy it again or record the file again");
}

std::vector<const LayerInfo*> Trace::File::reading(const SequenceInfo& sequence,
                                                   const LayerInfo& layer) const {
  std::vector<const LayerInfo*> found{&layer};
  for (const int reader : layer.readers) found.push_back(find(sequence.name, reader).second);
  return found;
}

}  // namespace kvsim
