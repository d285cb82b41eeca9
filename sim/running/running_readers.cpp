#include <fmt/format.h>

#include <algorithm>

#include "sim/base/errors.h"
#include "sim/running/running_caches.h"

namespace kvsim {

RunningCaches::Reading RunningCaches::reading_of(int reader) const {
  for (std::size_t layer = 0; layer < shape_.layers.size(); ++layer) {
    const std::vector<ReadingLayer>& readers = shape_.layers[layer].readers;
    const auto found = std::ranges::find(readers, reader, &ReadingLayer::index);
    if (found == readers.end()) continue;
    return {layer, static_cast<std::size_t>(found - readers.begin())};
  }
  throw UsageError(fmt::format("layer {}: it reads no cache of another layer", reader));
}

void RunningCaches::add_queries(int reader, const LayerRows& rows) {
  require_whole();
  if (rows.count == 0) return;
  const Reading at = reading_of(reader);
  int& known = num_queries_[at.layer][at.reader];
  const int expected = units_of(at.layer).front()->num_tokens() - known;
  if (rows.count != expected) {
    throw UsageError(fmt::format("layer {}: expected {} tokens, as of layer {}, found {}", reader,
                                 expected, shape_.layers[at.layer].index, rows.count));
  }
  for (const auto& unit : units_of(at.layer)) unit->append_queries(at.reader, rows);
  known += rows.count;
}

void RunningCaches::check_readers(int num_tokens) const {
  for (std::size_t layer = 0; layer < num_queries_.size(); ++layer) {
    for (std::size_t reader = 0; reader < num_queries_[layer].size(); ++reader) {
      if (num_queries_[layer][reader] == num_tokens) continue;
      throw UsageError(fmt::format("layer {} has {} tokens, expected {}; add those of every layer",
                                   shape_.layers[layer].readers[reader].index,
                                   num_queries_[layer][reader], num_tokens));
    }
  }
}

}  // namespace kvsim
