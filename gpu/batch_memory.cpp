#include "gpu/batch_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "gpu/half_vectors.h"
#include "sim/base/errors.h"

namespace kvsim::gpu {
namespace {

// Places arrays one after the other in an allocation; without one it only adds up their sizes.
class ArrayPlacer {
 public:
  explicit ArrayPlacer(std::byte* memory) : memory_(memory) {}

  template <class T>
  void place(T*& array, std::size_t count) {
    constexpr std::size_t kAlignment = 256;
    array = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + size_);
    size_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  }

  std::size_t size() const { return size_; }

 private:
  std::byte* memory_;
  std::size_t size_ = 0;
};

Batch empty_batch(const BatchSize& size) {
  return {.shape = size.shape,
          .num_units = size.num_units,
          .num_replays = size.num_replays,
          .capacity = size.capacity};
}

// Places all arrays of the batch, in the shapes that gpu/kernels/batch.h declares. Returns the
// bytes.
std::size_t lay_out(const BatchSize& size, std::byte* memory, Batch& batch) {
  const auto units = static_cast<std::size_t>(size.num_units);
  const auto replays = static_cast<std::size_t>(size.num_replays);
  const auto tokens = static_cast<std::size_t>(size.shape.num_tokens);
  const auto heads = static_cast<std::size_t>(size.shape.group_size);
  const auto dims = static_cast<std::size_t>(size.shape.value_dim);
  const std::size_t rows = kSteps * heads;
  const std::size_t slots = replays * static_cast<std::size_t>(size.capacity);
  ArrayPlacer placer(memory);
  placer.place(batch.units, units);
  placer.place(batch.replays, replays);
  const std::size_t keys = units * tokens * size.shape.head_dim;
  const bool is_half = size.shape.has_half_vectors;
  placer.place(batch.query, is_half ? 0 : heads * keys);
  placer.place(batch.key, keys);
  placer.place(batch.half_query, is_half ? heads * keys : 0);
  placer.place(batch.half_key, is_half ? keys : 0);
  placer.place(batch.value, units * tokens * dims);
  placer.place(batch.longest_value, replays == 0 ? 0 : units * tokens);
  placer.place(batch.sink_logit, units * heads);
  placer.place(batch.arrival_score, size.num_arrival_rows * tokens);
  placer.place(batch.replay_order, 2 * replays);
  placer.place(batch.logit, units * rows * tokens);
  placer.place(batch.weight, units * rows * tokens);
  placer.place(batch.sink_weight, units * rows);
  placer.place(batch.weight_sum, units * rows);
  placer.place(batch.num_pivotal, units * tokens * heads);
  placer.place(batch.held_token, slots);
  placer.place(batch.held_score, slots);
  placer.place(batch.num_held, replays);
  placer.place(batch.slot_token, slots);
  placer.place(batch.slot_score, slots);
  placer.place(batch.slot_attention, slots);
  placer.place(batch.remembered, size.remembered);
  placer.place(batch.evicted_after, replays * tokens);
  placer.place(batch.num_ties, replays);
  placer.place(batch.peak_held, replays);
  placer.place(batch.missing, replays * batch.words());
  placer.place(batch.kept, replays * rows);
  placer.place(batch.offset, replays * rows);
  placer.place(batch.loss, replays * rows);
  placer.place(batch.attention_loss, replays * tokens * heads);
  placer.place(batch.num_misses, replays * tokens * heads);
  placer.place(batch.parent, replays);
  placer.place(batch.distance, replays);
  placer.place(batch.order, replays);
  placer.place(batch.term, replays * tokens);
  placer.place(batch.num_terms, replays);
  placer.place(batch.evicted, replays * tokens);
  placer.place(batch.num_evicted, replays);
  placer.place(batch.full_sum, units * rows * dims);
  placer.place(batch.term_sum, replays * rows * dims);
  placer.place(batch.evicted_sum, replays * rows * dims);
  placer.place(batch.output_norm, units * tokens * heads);
  placer.place(batch.difference, replays * tokens * heads);
  placer.place(batch.totals, replays);
  const auto entries = [&](Summary summary, std::size_t count) {
    return size.summary == summary ? count : 0;
  };
  const std::size_t triangles = units * triangle_row(size.shape.num_tokens);
  placer.place(batch.num_small, entries(Summary::small, units * tokens * heads));
  placer.place(batch.pivotal_steps, entries(Summary::pivotal, units * tokens * heads));
  placer.place(batch.mean_attention, entries(Summary::future, triangles));
  placer.place(batch.remaining, entries(Summary::future, triangles));
  return placer.size();
}

}  // namespace

Shape shape_of(const Unit& unit) {
  return {.num_tokens = unit.num_tokens(),
          .group_size = unit.group_size(),
          .head_dim = static_cast<int>(unit.key.cols()),
          .value_dim = static_cast<int>(unit.value.cols()),
          .has_half_vectors = has_half_vectors(unit)};
}

UnitTask task_of(const Unit& unit) {
  if (unit.selected) {
    throw UsageError(fmt::format(
        "sequence '{}', layer {}: the model selects the tokens of each step, which no device "
        "does yet; use --device cpu",
        unit.name.sequence, unit.name.layer));
  }
  return {.scale = unit.scale,
          .softcap = unit.logit_softcap.value_or(0.0F),
          .sliding_window = unit.sliding_window.value_or(std::numeric_limits<int>::max()),
          .attention_chunk = unit.attention_chunk.value_or(std::numeric_limits<int>::max())};
}

std::size_t batch_bytes(const BatchSize& size) {
  Batch batch = empty_batch(size);
  return lay_out(size, nullptr, batch);
}

BatchMemory::BatchMemory(Device& device, const BatchSize& size)
    : device_(device), batch_(empty_batch(size)), memory_(device.allocate(batch_bytes(size))) {
  lay_out(size, memory_.get(), batch_);
}

void BatchMemory::upload_units(std::span<const UnitTask> tasks,
                               std::span<const Unit* const> units) {
  upload(tasks, batch_.units);
  const auto tokens = static_cast<std::size_t>(batch_.shape.num_tokens);
  const auto heads = static_cast<std::size_t>(batch_.shape.group_size);
  const auto dim = static_cast<std::size_t>(batch_.shape.head_dim);
  std::vector<float> query(tokens * heads * dim);
  std::vector<float> sinks;
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    for (std::size_t head = 0; head < heads; ++head) {
      sinks.push_back(units[unit]->sink(static_cast<int>(head)));
      const Matrix& of_head = units[unit]->query[head];
      for (std::size_t token = 0; token < tokens; ++token) {
        const float* from = of_head.data() + token * dim;
        std::copy(from, from + dim, query.data() + (token * heads + head) * dim);
      }
    }
    const Matrix& key = units[unit]->key;
    const Matrix& value = units[unit]->value;
    const std::span<const float> keys(key.data(), static_cast<std::size_t>(key.size()));
    upload(keys, batch_.key + unit * keys.size());
    if (batch_.shape.has_half_vectors) {
      upload<std::uint16_t>(half_bits(query), batch_.half_query + unit * query.size());
      upload<std::uint16_t>(half_bits(keys), batch_.half_key + unit * keys.size());
    } else {
      upload<float>(query, batch_.query + unit * query.size());
    }
    upload<float>({value.data(), static_cast<std::size_t>(value.size())},
                  batch_.value + unit * value.size());
  }
  upload<float>(sinks, batch_.sink_logit);
}

void BatchMemory::upload_replays(std::span<const ReplayTask> tasks,
                                 std::span<const std::int32_t> order,
                                 std::span<const double> arrival_scores,
                                 std::span<const double> longest_values) {
  upload(tasks, batch_.replays);
  upload(order, batch_.replay_order);
  upload(arrival_scores, batch_.arrival_score);
  upload(longest_values, batch_.longest_value);
}

}  // namespace kvsim::gpu
