#include "traces/shared_caches.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvsim {
namespace {

const std::string kRecordSequenceAgain = "record the sequence again";

/// Throws DataError unless one mask and one scale hold for the queries of both layers.
void require_alike(const LayerInfo& reader, const LayerInfo& owner, const Place& place) {
  const auto require = [&](const char* what, const auto& found, const auto& expected) {
    if (found == expected) return;
    place.attribute("kv_from").fail(
        fmt::format("the {} of layer {}, whose keys it reads", what, owner.index), "another one",
        kRecordSequenceAgain);
  };
  require("num_kv_heads", reader.shape.num_kv_heads, owner.shape.num_kv_heads);
  require("head_dim", reader.shape.head_dim, owner.shape.head_dim);
  require("value_dim", reader.shape.value_dim, owner.shape.value_dim);
  require("scale", reader.shape.scale, owner.shape.scale);
  require("sliding_window", reader.sliding_window, owner.sliding_window);
  require("attention_chunk", reader.attention_chunk, owner.attention_chunk);
  if (reader.has(Dataset::selected) || owner.has(Dataset::selected)) {
    place.attribute("kv_from").fail("layers that see the same tokens, to share a cache",
                                    "a selection of tokens", kRecordSequenceAgain);
  }
  if (reader.gradient_samples > 0 && owner.gradient_samples > 0) {
    require("samples of output_score_grad", reader.gradient_samples, owner.gradient_samples);
  }
  require("sink_logit or lack of it", reader.has(Dataset::sink_logit),
          owner.has(Dataset::sink_logit));
}

void link(LayerInfo& reader, LayerInfo& owner) {
  owner.readers.push_back(reader.index);
  std::erase_if(owner.kv_heads,
                [&](int head) { return !std::ranges::binary_search(reader.kv_heads, head); });
  reader.kv_heads.clear();
  owner.has_output &= reader.has_output;
  owner.output_bytes = std::min(owner.output_bytes, reader.output_bytes);
  if (reader.gradient_samples == 0) owner.gradient_samples = 0;
  owner.hidden = 0;  // what several layers lose is not added to one residual stream
}

}  // namespace

void link_shared_caches(const GroupReader& layers, SequenceInfo& sequence) {
  for (LayerInfo& reader : sequence.layers) {
    if (!reader.kv_from) continue;
    const Place place = layers.place().child(fmt::format("{}", reader.index));
    const auto owner = std::ranges::find(sequence.layers, *reader.kv_from, &LayerInfo::index);
    if (owner == sequence.layers.end() || owner->kv_from || owner->index >= reader.index) {
      place.attribute("kv_from").fail("an earlier layer with keys and values of its own",
                                      fmt::format("{}", *reader.kv_from), kRecordSequenceAgain);
    }
    require_alike(reader, *owner, place);
    link(reader, *owner);
  }
}

}  // namespace kvsim
