#pragma once

#include <bit>
#include <cstdint>

#include "gpu/kernels/cache_attention.h"
#include "gpu/kernels/find_ranked_key.h"
#include "gpu/kernels/remembered_scores.h"
#include "sim/kernels/score_kernels.h"

namespace kvsim::gpu {

/// The bytes of a slot: score, token and attention.
inline constexpr std::size_t kBytesPerSlot = sizeof(double) + sizeof(std::int32_t) + sizeof(float);

/// Replays the steps of a block on one cache. An evicted token leaves a gap, scored kEvictedScore,
/// until the end of the block. CPU counterparts: ScoreReplay in sim/replay/score_replay.h and
/// SlotCache in sim/cache/slot_cache.h.
template <class Block>
class CacheReplay {
 public:
  KVSIM_DEVICE CacheReplay(Block& block, const Batch& batch, int index)
      : block_(block),
        batch_(batch),
        index_(index),
        task_(batch.replays[index]),
        evicted_after_(batch.evicted_after + batch.tokens_of(index)),
        attention_(block, batch, index),
        remembered_(block, batch, task_) {
    use_slots();
  }

  KVSIM_DEVICE void run() {
    load();
    if (task_.selects) {
      keep_all();
      return;
    }
    for (int row = 0; row < batch_.num_steps; ++row) {
      const int step = batch_.first_step + row;
      admit(step);
      attention_.attend(step, row * batch_.shape.group_size, slots_);
      const Lowest lowest = score(step);
      if (!evicts_after(step)) continue;
      evict(step, lowest);
      if (slots_.num_held > peak_held_) peak_held_ = slots_.num_held;
    }
    store();
  }

 private:
  struct Lowest {
    double score;
    int slot;
    int count;  // candidates with this score
  };

  // The most evictions of a step that are searched for one by one. A selection is taken to last as
  // long as so many searches.
  static constexpr int kMostInTurn = 16;

  KVSIM_DEVICE static Lowest none() { return {kEvictedScore, 0x7fffffff, 0}; }

  KVSIM_DEVICE static Lowest lower(const Lowest& a, const Lowest& b) {
    if (a.score == b.score) return {a.score, min_of(a.slot, b.slot), a.count + b.count};
    return b.score < a.score ? b : a;
  }

  KVSIM_DEVICE void use_slots() {
    const std::size_t first = static_cast<std::size_t>(index_) * batch_.capacity;
    slots_ = {batch_.slot_token + first, batch_.slot_score + first, batch_.slot_attention + first};
    const int num_slots = batch_.group.slots;
    auto* on_chip = static_cast<double*>(block_.on_chip(kBytesPerSlot * num_slots));
    if (on_chip == nullptr) return;
    slots_.score = on_chip;
    slots_.token = reinterpret_cast<std::int32_t*>(on_chip + num_slots);
    slots_.attention = reinterpret_cast<float*>(slots_.token + num_slots);
  }

  KVSIM_DEVICE void load() {
    const std::size_t first = static_cast<std::size_t>(index_) * batch_.capacity;
    if (batch_.first_step == 0) {
      block_.each(batch_.shape.num_tokens,
                  [&](int token) { evicted_after_[token] = batch_.shape.num_tokens; });
    } else {
      slots_.num_held = slots_.count = batch_.num_held[index_];
    }
    num_ties_ = batch_.first_step == 0 ? 0 : batch_.num_ties[index_];
    peak_held_ = batch_.first_step == 0 ? 0 : batch_.peak_held[index_];
    block_.each(slots_.count, [&](int slot) {
      slots_.token[slot] = batch_.held_token[first + slot];
      slots_.score[slot] = batch_.held_score[first + slot];
    });
    std::uint64_t* missing = batch_.missing + static_cast<std::size_t>(index_) * batch_.words();
    block_.each(batch_.words(), [&](int word) {
      std::uint64_t bits = 0;
      const int end = min_of(64, batch_.shape.num_tokens - 64 * word);
      for (int bit = 0; bit < end; ++bit) {
        const bool is_evicted = evicted_after_[64 * word + bit] < batch_.first_step;
        bits |= static_cast<std::uint64_t>(is_evicted) << bit;
      }
      missing[word] = bits;
    });
  }

  // select_tokens() measures the loss of a replay that selects.
  KVSIM_DEVICE void keep_all() {
    peak_held_ = batch_.width();
    block_.each(batch_.rows(),
                [&](int row) { batch_.loss[batch_.block_row(index_, row)] = Loss::nothing; });
    store();
  }

  KVSIM_DEVICE void admit(int step) {
    block_.on_owner(slots_.count, [&] {
      slots_.token[slots_.count] = step;
      slots_.score[slots_.count] = arrival_score_of(batch_, task_, step);
    });
    ++slots_.count;
    ++slots_.num_held;
  }

  KVSIM_DEVICE bool is_candidate(int slot) const {
    return task_.protect_first <= slot && slot < slots_.count - task_.protect_newest;
  }

  KVSIM_DEVICE Lowest score(int step) {
    const bool remembers = task_.rule.needs_history();
    if (remembers) remembered_.update(step, evicts_after(step) ? overflow(step) : 0, slots_);
    const bool is_scored = remembers || task_.rule.kind == ScoreRule::Kind::newest;
    const ScoredStep scored{
        step, static_cast<std::size_t>(task_.sees_full_attention ? step + 1 : slots_.num_held)};
    return block_.reduce(
        slots_.count, none(),
        [&](int slot) {
          double& score = slots_.score[slot];
          if (score == kEvictedScore) return none();
          if (!is_scored) {
            const float attention = task_.rule.reads_attention() ? slots_.attention[slot] : 0;
            score = next_score(task_.rule, scored, slots_.token[slot], score, attention);
          }
          return is_candidate(slot) ? Lowest{score, slot, 1} : none();
        },
        lower);
  }

  KVSIM_DEVICE bool evicts_after(int step) const { return step + 1 >= batch_.shape.prompt_length; }

  // The same as Cache::overflow() in sim/cache/cache.h.
  KVSIM_DEVICE int overflow(int step) const {
    const bool is_prompt_end = step + 1 == batch_.shape.prompt_length;
    const int excess = slots_.num_held - task_.budget;
    if (excess <= 0 || (!is_prompt_end && slots_.num_held <= task_.most_held)) return 0;
    const int drops = (excess + task_.drop - 1) / task_.drop;
    return min_of(drops * task_.drop, slots_.num_held - task_.protect_first - task_.protect_newest);
  }

  KVSIM_DEVICE void evict(int step, Lowest lowest) {
    const int count = overflow(step);
    slots_.num_held -= count;
    if constexpr (Block::kFindsRanked) {
      if (count > kMostInTurn) return evict_many(step, count);
    }
    evict_in_turn(step, count, lowest);
  }

  // By the thread that has the slot.
  KVSIM_DEVICE void evict_slot(int step, int slot) {
    slots_.score[slot] = kEvictedScore;
    evicted_after_[slots_.token[slot]] = step;
  }

  // The lowest candidates by a radix selection, the earlier ones first among equals.
  KVSIM_DEVICE void evict_many(int step, int count) {
    const auto key_of = [&](int slot) {
      return is_candidate(slot) ? eviction_key(slots_.score[slot]) : std::uint64_t{0};
    };
    const auto last = find_ranked_key<std::uint64_t>(block_, slots_.count, count - 1, key_of);
    const int num_equal = count - last.num_larger;  // to evict
    block_.each_own(slots_.count, [&](int slot) {
      if (key_of(slot) > last.key) evict_slot(step, slot);
    });
    const int num_with_key = block_.select(
        slots_.count, [&](int slot) { return key_of(slot) == last.key; },
        [&](int slot, int place) {
          if (place < num_equal) evict_slot(step, slot);
        });
    if (num_with_key > num_equal) num_ties_ += num_equal;
  }

  // Larger for a lower score, 0 for that of an evicted token and for no other.
  KVSIM_DEVICE static std::uint64_t eviction_key(double score) {
    constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
    if (score == kEvictedScore) return 0;
    const auto bits = std::bit_cast<std::uint64_t>(score + 0.0);  // -0 equals 0
    return (bits & kSign) != 0 ? bits : ~(bits | kSign);
  }

  KVSIM_DEVICE void evict_in_turn(int step, int count, Lowest lowest) {
    int num_equal = 0;  // evicted in a row with the same score
    double last = kEvictedScore;
    for (int remaining = count; remaining > 0; --remaining) {
      num_equal = lowest.score == last ? num_equal + 1 : 1;
      last = lowest.score;
      if (remaining == 1 && lowest.count > 1) num_ties_ += num_equal;
      block_.on_owner(lowest.slot, [&] { evict_slot(step, lowest.slot); });
      if (remaining == 1) break;
      lowest = block_.reduce(
          slots_.count, none(),
          [&](int slot) {
            const double score = slots_.score[slot];
            const bool counts = is_candidate(slot) && score != kEvictedScore;
            return counts ? Lowest{score, slot, 1} : none();
          },
          lower);
    }
  }

  KVSIM_DEVICE void store() {
    const std::size_t first = static_cast<std::size_t>(index_) * batch_.capacity;
    block_.select(
        slots_.count, [&](int slot) { return slots_.score[slot] != kEvictedScore; },
        [&](int slot, int place) {
          batch_.held_token[first + place] = slots_.token[slot];
          batch_.held_score[first + place] = slots_.score[slot];
        });
    block_.once([&] {
      batch_.num_held[index_] = slots_.num_held;
      batch_.num_ties[index_] = num_ties_;
      batch_.peak_held[index_] = peak_held_;
    });
  }

  Block& block_;
  const Batch& batch_;
  int index_;
  ReplayTask task_;
  std::int32_t* evicted_after_;
  Slots slots_ = {};
  int num_ties_ = 0;
  int peak_held_ = 0;
  CacheAttention<Block> attention_;
  RememberedScores<Block> remembered_;
};

template <class Block>
KVSIM_DEVICE void replay_steps(Block& block, const Batch& batch, int index) {
  CacheReplay<Block>(block, batch, batch.replay_order[batch.group.first + index]).run();
}

}  // namespace kvsim::gpu
