#include "traces/residual_stream.h"

#include <utility>

#include "traces/hdf5/hdf5_lock.h"
#include "traces/trace_layout.h"

namespace kvsim {
namespace {

/// The sequence and its layer; null if that lacks the dataset.
std::pair<const SequenceInfo*, const LayerInfo*> layer_with_residual(const Trace& trace,
                                                                     const std::string& name,
                                                                     int layer) {
  for (const SequenceInfo& sequence : trace.sequences()) {
    if (sequence.name != name) continue;
    for (const LayerInfo& info : sequence.layers) {
      if (info.index == layer && info.has(Dataset::residual)) return {&sequence, &info};
    }
  }
  return {};
}

}  // namespace

Matrix read_residual(const Trace& trace, const std::string& sequence, int layer) {
  const auto [in, info] = layer_with_residual(trace, sequence, layer);
  if (info == nullptr) return {};
  ClosedUnderLock<LayerData> data;
  trace.with_root([&, &text = *in, &of_layer = *info](const GroupReader& root) {
    data.reset(new LayerData(open_layer(root, text, of_layer)));
  });
  return data->matrices.at(Dataset::residual).read(0);
}

}  // namespace kvsim
