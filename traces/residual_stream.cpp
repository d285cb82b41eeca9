#include "traces/residual_stream.h"

#include <algorithm>

#include "traces/hdf5/hdf5_lock.h"
#include "traces/hdf5/open_hdf5.h"
#include "traces/trace_layout.h"

namespace kvsim {
namespace {

/// The sequence, if its layer has the dataset.
const SequenceInfo* sequence_with_residual(const Trace& trace, const std::string& name, int layer) {
  for (const SequenceInfo& sequence : trace.sequences()) {
    if (sequence.name != name) continue;
    const bool has_residual = std::any_of(
        sequence.layers.begin(), sequence.layers.end(),
        [&](const LayerInfo& info) { return info.index == layer && info.has_residual; });
    return has_residual ? &sequence : nullptr;
  }
  return nullptr;
}

}  // namespace

Matrix read_residual(const Trace& trace, const std::string& sequence, int layer) {
  const SequenceInfo* const info = sequence_with_residual(trace, sequence, layer);
  if (info == nullptr) return {};
  const std::string image = trace.in_memory() ? trace.image() : "";
  struct Opened {
    GroupReader root;  // keeps the file open, and is closed last
    LayerData data;
  };
  const auto open = [&] {
    const Hdf5Lock lock;
    try {
      const GroupReader root = trace.in_memory()
                                   ? open_hdf5_image(image, Trace::kInMemory)
                                   : open_hdf5(trace.file(), {.kind = "a trace file",
                                                              .make = "kvsim synth writes a trace",
                                                              .repair = "record the file again"});
      return ClosedUnderLock<Opened>(
          new Opened{root, open_layer(root, trace.header(), *info, layer)});
    } catch (const H5::Exception& error) {
      Place{trace.file().string(), "/sequences/" + sequence}.fail(
          "a sound HDF5 file", "damage: " + error.getDetailMsg(), "copy it again");
    }
  };
  return open()->data.residual->read(0);
}

}  // namespace kvsim
