#include "traces/first_reading.h"

#include <map>
#include <memory>

#include "traces/hdf5/hdf5_lock.h"
#include "traces/selected_dataset.h"
#include "traces/tokens.h"
#include "traces/trace_layout.h"

namespace kvsim {
namespace {

void read_all(const GroupReader& root, const std::vector<SequenceInfo>& sequences) {
  std::map<int, LayerShape> with_projection;
  for (const SequenceInfo& sequence : sequences) {
    {
      const Hdf5Lock lock;
      const GroupReader group =
          root.group("sequences", root.fix()).group(sequence.name, root.fix());
      read_token_ids(group);
      read_token_text(group, sequence.num_tokens);
    }
    for (const LayerInfo& layer : sequence.layers) {
      const auto data = [&] {
        const Hdf5Lock lock;
        read_selected(layer_group(root, sequence, layer), layer, sequence.num_tokens);
        return ClosedUnderLock<LayerData>(new LayerData(open_layer(root, sequence, layer)));
      }();
      for (const auto& [id, dataset] : data->matrices) dataset.try_library();
      if (layer.has(Dataset::output_projection)) with_projection.emplace(layer.index, layer.shape);
    }
  }
  for (const auto& [layer, shape] : with_projection) {
    const auto projection = [&, index = layer, &sizes = shape] {
      const Hdf5Lock lock;
      auto opened = open_projection(root, sizes, index);
      return ClosedUnderLock<HeadDataset>(opened ? new HeadDataset(*opened) : nullptr);
    }();
    if (projection) projection->try_library();
  }
}

}  // namespace

void read_by_library(const GroupReader& root, const std::vector<SequenceInfo>& sequences) {
  try {
    read_all(root, sequences);
  } catch (const H5::Exception& error) {
    Place{root.place().file, ""}.fail("a sound HDF5 file", "damage: " + error.getDetailMsg(),
                                      "copy it again or " + root.fix());
  }
}

}  // namespace kvsim
