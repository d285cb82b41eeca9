#include "gpu/batch_memory.h"

#include <algorithm>
#include <limits>

namespace kvsim::gpu {
namespace {

// Gives out parts of one allocation, or of nothing: then only their size counts.
class Parts {
 public:
  explicit Parts(std::byte* memory) : memory_(memory) {}

  template <class T>
  void give(T*& part, std::size_t count) {
    constexpr std::size_t kAlignment = 256;
    part = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + size_);
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

// The shapes of the arrays are those of their declarations.
std::size_t lay_out(const BatchSize& size, std::byte* memory, Batch& batch) {
  const auto units = static_cast<std::size_t>(size.num_units);
  const auto replays = static_cast<std::size_t>(size.num_replays);
  const auto tokens = static_cast<std::size_t>(size.shape.num_tokens);
  const auto heads = static_cast<std::size_t>(size.shape.group_size);
  const auto dims = static_cast<std::size_t>(size.shape.value_dim);
  const std::size_t rows = kSteps * heads;
  const std::size_t slots = replays * static_cast<std::size_t>(size.capacity);
  Parts parts(memory);
  parts.give(batch.units, units);
  parts.give(batch.replays, replays);
  parts.give(batch.query, units * tokens * heads * size.shape.head_dim);
  parts.give(batch.key, units * tokens * size.shape.head_dim);
  parts.give(batch.value, units * tokens * dims);
  parts.give(batch.arrival_score, size.num_arrival_rows * tokens);
  parts.give(batch.logit, units * rows * tokens);
  parts.give(batch.weight, units * rows * tokens);
  parts.give(batch.weight_sum, units * rows);
  parts.give(batch.num_pivotal, units * tokens * heads);
  parts.give(batch.held_token, slots);
  parts.give(batch.held_score, slots);
  parts.give(batch.num_held, replays);
  parts.give(batch.slot_token, slots);
  parts.give(batch.slot_score, slots);
  parts.give(batch.slot_attention, slots);
  parts.give(batch.remembered, size.remembered);
  parts.give(batch.evicted_after, replays * tokens);
  parts.give(batch.lacking, replays * batch.words());
  parts.give(batch.kept, replays * rows);
  parts.give(batch.offset, replays * rows);
  parts.give(batch.loss, replays * rows);
  parts.give(batch.attention_loss, replays * tokens * heads);
  parts.give(batch.num_misses, replays * tokens * heads);
  parts.give(batch.parent, replays);
  parts.give(batch.distance, replays);
  parts.give(batch.order, replays);
  parts.give(batch.term, replays * tokens);
  parts.give(batch.num_terms, replays);
  parts.give(batch.late, replays * tokens);
  parts.give(batch.num_late, replays);
  parts.give(batch.full_sum, units * rows * dims);
  parts.give(batch.term_sum, replays * rows * dims);
  parts.give(batch.late_sum, replays * rows * dims);
  parts.give(batch.output_norm, units * tokens * heads);
  parts.give(batch.difference, replays * tokens * heads);
  const auto entries = [&](Summary summary, std::size_t count) {
    return size.summary == summary ? count : 0;
  };
  const std::size_t triangles = units * triangle_row(size.shape.num_tokens);
  parts.give(batch.num_small, entries(Summary::small, units * tokens * heads));
  parts.give(batch.pivotal_steps, entries(Summary::pivotal, units * tokens * heads));
  parts.give(batch.mean_attention, entries(Summary::future, triangles));
  parts.give(batch.remaining, entries(Summary::future, triangles));
  return parts.size();
}

}  // namespace

Shape shape_of(const Unit& unit) {
  return {.num_tokens = unit.num_tokens(),
          .group_size = unit.group_size(),
          .head_dim = static_cast<int>(unit.key.cols()),
          .value_dim = static_cast<int>(unit.value.cols())};
}

UnitTask task_of(const Unit& unit) {
  return {.scale = unit.scale,
          .softcap = unit.logit_softcap.value_or(0.0F),
          .sliding_window = unit.sliding_window.value_or(std::numeric_limits<int>::max())};
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
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    for (std::size_t head = 0; head < heads; ++head) {
      const Matrix& of_head = units[unit]->query[head];
      for (std::size_t token = 0; token < tokens; ++token) {
        const float* from = of_head.data() + token * dim;
        std::copy(from, from + dim, query.data() + (token * heads + head) * dim);
      }
    }
    const Matrix& key = units[unit]->key;
    const Matrix& value = units[unit]->value;
    upload<float>(query, batch_.query + unit * query.size());
    upload<float>({key.data(), static_cast<std::size_t>(key.size())},
                  batch_.key + unit * key.size());
    upload<float>({value.data(), static_cast<std::size_t>(value.size())},
                  batch_.value + unit * value.size());
  }
}

void BatchMemory::upload_replays(std::span<const ReplayTask> tasks,
                                 std::span<const double> arrival_scores) {
  upload(tasks, batch_.replays);
  upload(arrival_scores, batch_.arrival_score);
}

}  // namespace kvsim::gpu
