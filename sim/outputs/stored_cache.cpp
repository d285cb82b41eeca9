#include "sim/outputs/stored_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "sim/base/errors.h"

namespace kvsim {
namespace {

std::span<const float> row_of(const Matrix& matrix, int row) {
  return {matrix.row(row).data(), static_cast<std::size_t>(matrix.cols())};
}

StoreContext context_of(const Unit& unit, std::uint64_t seed) {
  return {.shape = shape_of(unit),
          .seed = seed,
          .scale = unit.scale,
          .logit_softcap = unit.logit_softcap,
          .rotation = rotation_of(unit)};
}

// What was merged could not leave when its token is hidden.
void require_visible(const Unit& unit) {
  std::string found;
  if (unit.sliding_window)
    found = fmt::format("a sliding window of {} tokens", *unit.sliding_window);
  if (unit.attention_chunk) found = fmt::format("chunks of {} tokens", *unit.attention_chunk);
  if (unit.selected) found = "one that selects";
  if (found.empty()) return;
  throw UsageError(
      fmt::format("sequence '{}', layer {}: expected a layer that sees all tokens, since evicted "
                  "ones are merged into others, found {}; leave +merge out",
                  unit.name.sequence, unit.name.layer, found));
}

}  // namespace

std::optional<Rotation> rotation_of(const Unit& unit) {
  if (!unit.rope) return std::nullopt;
  return Rotation{.inverse_frequency = unit.rope->inverse_frequency,
                  .interleaved = unit.rope->style == "interleaved",
                  .attention_factor = unit.rope->attention_factor};
}

VectorShape shape_of(const Unit& unit) {
  return {.head_dim = static_cast<int>(unit.key.cols()),
          .value_dim = static_cast<int>(unit.value.cols()),
          .key_bytes = unit.key_bytes,
          .value_bytes = unit.value_bytes};
}

StoredCache::StoredCache(const Unit& unit, const Rules& rules, int first_stored, std::uint64_t seed)
    : unit_(unit),
      keeps_evicted_(rules.keeps_evicted()),
      first_stored_(first_stored),
      store_(rules.store->make(context_of(unit, seed))) {
  if (rules.store->joins_tokens()) require_visible(unit);
}

void StoredCache::begin(int step, std::span<const std::int32_t> held) {
  if (step == step_) return;
  step_ = step;
  store_->admit(row_of(unit_.key, step), row_of(unit_.value, step));
  held_.assign(held.begin(), held.end());
  attention_.assign(held.size(), 0);
  attended_.clear();
  std::merge(held.begin(), held.end(), evicted_.begin(), evicted_.end(),
             std::back_inserter(attended_));
}

void StoredCache::add_attention(std::span<const float> weights, double weight_sum) {
  if (weight_sum <= 0) return;
  const auto scale = static_cast<float>(1 / (weight_sum * unit_.group_size()));
  for (std::size_t slot = 0; slot < weights.size(); ++slot) {
    attention_[slot] += weights[slot] * scale;
  }
}

void StoredCache::settle(std::span<const std::int32_t> held, bool is_whole) {
  std::vector<std::span<const float>> queries;
  for (const Matrix& query : unit_.query) queries.push_back(row_of(query, step_));
  store_->settle({step_, held_, attention_, held, is_whole, queries});
  if (keeps_evicted_) {
    std::vector<std::int32_t> left;
    std::set_difference(held_.begin(), held_.end(), held.begin(), held.end(),
                        std::back_inserter(left));
    const auto middle = static_cast<std::ptrdiff_t>(evicted_.size());
    evicted_.insert(evicted_.end(), left.begin(), left.end());
    std::inplace_merge(evicted_.begin(), evicted_.begin() + middle, evicted_.end());
  }
  if (!is_whole) peak_bytes_ = std::max(peak_bytes_, store_->bytes());
}

}  // namespace kvsim
