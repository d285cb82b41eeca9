#include <algorithm>

#include "traces/layer_data.h"
#include "traces/trace_state.h"

namespace kvsim {

Trace::Rows::Rows(std::shared_ptr<const File> file, const UnitName& name, bool values)
    : file_(std::move(file)),
      kv_head_(name.kv_head),
      values_(values),
      bound_(layer_place(file_->path, name), file_->find(name).second->shape.scale) {
  const auto [sequence, layer] = file_->find(name);
  num_tokens_ = sequence->num_tokens;
  for (const LayerInfo* const each : file_->reading(*sequence, *layer)) {
    const int size = each->shape.group_size();
    groups_.push_back({.data = file_->layer_data(*sequence, *each),
                       .first_head = name.kv_head * size,
                       .digests = std::vector<HeadDigest>(static_cast<std::size_t>(size))});
    at_once_ = std::max(at_once_, groups_.back().data->query().rows_at_once());
  }
  const LayerData& cached = *groups_.front().data;
  at_once_ = std::max({at_once_, cached.key().rows_at_once(), cached.value().rows_at_once()});
}

void Trace::Rows::read(int first, UnitPart& part) {
  const int count = std::min(at_once_, num_tokens_ - first);
  part.first = first;
  part.query.clear();
  for (Group& group : groups_) {
    int head = group.first_head;
    for (HeadDigest& digest : group.digests) {
      part.query.push_back(group.data->query().read_rows(head++, first, count, digest));
    }
  }
  const LayerData& cached = *groups_.front().data;
  part.key = cached.key().read_rows(kv_head_, first, count, key_digest_);
  if (values_) part.value = cached.value().read_rows(kv_head_, first, count, value_digest_);
  bound_.add(part.query, part.key);
}

}  // namespace kvsim
