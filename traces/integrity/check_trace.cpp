#include "traces/integrity/check_trace.h"

#include "traces/hdf5/hdf5_lock.h"
#include "traces/head_dataset.h"
#include "traces/integrity/digest_attribute.h"
#include "traces/integrity/format_tree.h"

namespace kvsim {
namespace {

/// The heads of a dataset that were written.
std::vector<int> written_heads(const HeadDataset& dataset) {
  std::vector<int> heads;
  for (int head = 0; head < dataset.num_heads(); ++head) {
    if (dataset.contains(head)) heads.push_back(head);
  }
  return heads;
}

}  // namespace

TraceCheck check_trace(const Trace& trace, const std::function<void()>& between) {
  TraceCheck check{.version = trace.header().version};
  if (check.version < 2) return check;
  std::vector<DatasetPlace> places;
  trace.with_root([&](const GroupReader& root) { places = list_datasets(root); });
  for (const DatasetPlace& place : places) {
    ClosedUnderLock<HeadDataset> opened;
    std::vector<int> heads;
    trace.with_root([&](const GroupReader& root) {
      const GroupReader group = root.at(place.group);
      if (!place.info->is_matrices()) {
        const std::string name = place.name();
        read_elements(group.dataset(name), group.place().child(name), group.fix());
        return;
      }
      opened.reset(new HeadDataset(HeadDataset::of_any_size(group, *place.info)));
      heads = written_heads(*opened);
    });
    for (const int head : heads) {
      check_digest(opened->digests(), static_cast<std::size_t>(head), opened->digest_of(head),
                   opened->place());
      between();
    }
    if (!opened) between();
    ++check.datasets;
    check.heads += opened ? static_cast<std::int64_t>(heads.size()) : 1;
  }
  return check;
}

void read_every_unit(const Trace& trace, const std::function<void()>& between) {
  for (const SequenceInfo& sequence : trace.sequences()) {
    for (const LayerInfo& layer : sequence.layers) {
      for (const auto& [dataset, shape] : layer.recorded) {
        const DatasetInfo& info = info_of(dataset);
        if (info.level != Level::layer || !info.is_whole()) continue;
        trace.read_rows(dataset, sequence.name, layer.index, [&](const Matrix&) { between(); });
      }
      for (const int head : layer.kv_heads) {
        between();
        trace.read_unit({sequence.name, layer.index, head});
        if (layer.has_output) trace.read_output({sequence.name, layer.index, head});
      }
    }
  }
}

}  // namespace kvsim
