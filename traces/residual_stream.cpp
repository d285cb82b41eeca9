#include "traces/residual_stream.h"

#include <algorithm>

#include "traces/hdf5/hdf5_lock.h"
#include "traces/trace_layout.h"

namespace kvsim {
namespace {

/// The sequence, if its layer has the dataset.
const SequenceInfo* sequence_with_residual(const Trace& trace, const std::string& name, int layer) {
  for (const SequenceInfo& sequence : trace.sequences()) {
    if (sequence.name != name) continue;
    const bool has_residual = std::any_of(
        sequence.layers.begin(), sequence.layers.end(),
        [&](const LayerInfo& info) { return info.index == layer && info.has(Dataset::residual); });
    return has_residual ? &sequence : nullptr;
  }
  return nullptr;
}

}  // namespace

Matrix read_residual(const Trace& trace, const std::string& sequence, int layer) {
  const SequenceInfo* const info = sequence_with_residual(trace, sequence, layer);
  if (info == nullptr) return {};
  ClosedUnderLock<LayerData> data;
  trace.with_root([&](const GroupReader& root) {
    data.reset(new LayerData(open_layer(root, trace.header(), *info, layer)));
  });
  return data->matrices.at(Dataset::residual).read(0);
}

}  // namespace kvsim
