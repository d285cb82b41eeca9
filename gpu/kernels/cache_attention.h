#pragma once

#include <cmath>

#include "gpu/kernels/attended.h"
#include "gpu/kernels/remembered_scores.h"
#include "sim/attention/pivotal.h"
#include "sim/attention/rescaled_step.h"

namespace kvsim::gpu {

/// Attention over the tokens of one cache. Query heads share a reduction: steps follow each other,
/// so what counts is how often the threads of a block wait for each other.
/// CPU counterpart: ScoreReplay in sim/replay/score_replay.h.
template <class Block>
class CacheAttention {
 public:
  KVSIM_DEVICE CacheAttention(Block& block, const Batch& batch, int replay)
      : block_(block),
        batch_(batch),
        replay_(replay),
        task_(batch.replays[replay]),
        num_heads_(batch.shape.group_size) {}

  /// Gives `slots` the attention of a step, whose first row of the block is `first_row`, and writes
  /// what the cache loses. Each thread writes slots of its own.
  KVSIM_DEVICE void attend(int step, int first_row, const Slots& slots) {
    constexpr int kTogether = 4;
    slots_ = slots;
    if (num_heads_ == 1) return attend_alone(step, first_row, 0);
    for (int head = 0; head < num_heads_; head += kTogether) {
      attend_together<kTogether>(step, first_row + head, head);
    }
  }

 private:
  /// How the attention of one query head, divided by the number of heads, follows from weights.
  struct HeadWeights {
    const float* weight;  // by token; the logits if is_rescaled
    float scale;
    float offset;
    bool is_rescaled;
  };

  /// Attended of several query heads.
  template <int kHeads>
  struct AttendedByHeads {
    double weight_sum[kHeads];
    int num_pivotal[kHeads];
    int num_visible;

    KVSIM_DEVICE friend AttendedByHeads operator+(AttendedByHeads a, const AttendedByHeads& b) {
      KVSIM_UNROLL
      for (int h = 0; h < kHeads; ++h) {
        a.weight_sum[h] += b.weight_sum[h];
        a.num_pivotal[h] += b.num_pivotal[h];
      }
      a.num_visible += b.num_visible;
      return a;
    }
  };

  KVSIM_DEVICE void attend_alone(int step, int row, int head) {
    const std::size_t of_unit = batch_.block_row(task_.unit, row);
    const float* weight = weights_of(row);
    const float* logit = batch_.logit + of_unit * batch_.shape.num_tokens;
    const double full_sum = batch_.weight_sum[of_unit];
    const int begin = batch_.first_visible(task_.unit, step);
    Attended attended = block_.reduce(
        slots_.count, Attended{0, 0, 0},
        [&](int slot) -> Attended {
          if (slots_.score[slot] == kEvictedScore) return {0, 0, 0};
          const int token = slots_.token[slot];
          return {weight[token], is_pivotal(weight[token], full_sum, step), token >= begin};
        },
        Sum());
    attended.weight_sum += batch_.sink_weight[of_unit];
    const bool is_missing = attended.num_visible < step + 1 - begin;
    double kept = is_missing ? attended.weight_sum : full_sum;
    float offset = 0;
    const bool is_rescaled = is_missing && attended.weight_sum < kMinWeightSum;
    if (is_rescaled) {
      const float sink = batch_.sink_of(task_.unit, row);
      offset = Larger()(largest_logit(logit, begin), sink);
      kept = rescaled_weight_sum(logit, begin, offset) + weight_of_sink(sink, offset);
    }
    const bool full = task_.sees_full_attention;
    const HeadWeights weights{is_rescaled && !full ? logit : weight,
                              attention_scale(full ? full_sum : kept, num_heads_), offset,
                              is_rescaled && !full};
    if (task_.rule.reads_attention()) {
      block_.each_own(slots_.count, [&](int slot) {
        const float before = head == 0 ? 0 : slots_.attention[slot];
        slots_.attention[slot] = before + attention_of(weights, slots_.token[slot], begin);
      });
    }
    block_.on_owner(0, [&] {
      const Loss loss = is_rescaled ? Loss::nearly_all : is_missing ? Loss::tokens : Loss::nothing;
      record(row, kept, offset, loss, attended);
    });
  }

  // The same for query heads first_head .. first_head + kHeads - 1, as far as there are so many;
  // `first_row` is that of the first.
  template <int kHeads>
  KVSIM_DEVICE void attend_together(int step, int first_row, int first_head) {
    const int num_heads = min_of(kHeads, num_heads_ - first_head);
    const std::size_t of_unit = batch_.block_row(task_.unit, first_row);
    const std::size_t tokens = batch_.shape.num_tokens;
    const float* weight = weights_of(first_row);
    const int begin = batch_.first_visible(task_.unit, step);
    const auto attended = block_.reduce(
        slots_.count, AttendedByHeads<kHeads>{},
        [&](int slot) {
          AttendedByHeads<kHeads> own{};
          if (slots_.score[slot] == kEvictedScore) return own;
          const int token = slots_.token[slot];
          own.num_visible = static_cast<int>(token >= begin);
          KVSIM_UNROLL
          for (int h = 0; h < kHeads; ++h) {
            if (h >= num_heads) continue;
            const float of_head = weight[h * tokens + token];
            own.weight_sum[h] = of_head;
            own.num_pivotal[h] =
                static_cast<int>(is_pivotal(of_head, batch_.weight_sum[of_unit + h], step));
          }
          return own;
        },
        Sum());
    const bool is_missing = attended.num_visible < step + 1 - begin;
    float scale[kHeads];
    bool is_rescaled = false;
    KVSIM_UNROLL
    for (int h = 0; h < kHeads; ++h) {
      if (h >= num_heads) continue;
      const double full_sum = batch_.weight_sum[of_unit + h];
      const double weight_sum = attended.weight_sum[h] + batch_.sink_weight[of_unit + h];
      is_rescaled |= is_missing && weight_sum < kMinWeightSum;
      const bool is_full = task_.sees_full_attention || !is_missing;
      scale[h] = attention_scale(is_full ? full_sum : weight_sum, num_heads_);
    }
    if (is_rescaled) {  // rare
      for (int h = 0; h < num_heads; ++h) attend_alone(step, first_row + h, first_head + h);
      return;
    }
    if (task_.rule.reads_attention()) {
      block_.each_own(slots_.count, [&](int slot) {
        const int token = slots_.token[slot];
        float attention = first_head == 0 ? 0 : slots_.attention[slot];
        KVSIM_UNROLL
        for (int h = 0; h < kHeads; ++h) {
          if (h < num_heads) attention += weight[h * tokens + token] * scale[h];
        }
        slots_.attention[slot] = attention;
      });
    }
    block_.each_own(num_heads, [&](int h) {
      Attended own{attended.weight_sum[0], attended.num_pivotal[0], attended.num_visible};
      KVSIM_UNROLL
      for (int other = 1; other < kHeads; ++other) {
        if (h != other) continue;
        own.weight_sum = attended.weight_sum[other];
        own.num_pivotal = attended.num_pivotal[other];
      }
      own.weight_sum += batch_.sink_weight[of_unit + h];
      const double kept = is_missing ? own.weight_sum : batch_.weight_sum[of_unit + h];
      record(first_row + h, kept, 0, is_missing ? Loss::tokens : Loss::nothing, own);
    });
  }

  KVSIM_DEVICE const float* weights_of(int row) const {
    return batch_.weight + batch_.block_row(task_.unit, row) * batch_.shape.num_tokens;
  }

  // Called by one thread.
  KVSIM_DEVICE void record(int row, double kept, float offset, Loss loss,
                           const Attended& attended) {
    const std::size_t in_block = batch_.block_row(replay_, row);
    batch_.kept[in_block] = kept;
    batch_.offset[in_block] = offset;
    batch_.loss[in_block] = loss;
    record_loss(batch_, replay_, row, attended, loss != Loss::nothing);
  }

  KVSIM_DEVICE static float attention_of(const HeadWeights& of_head, int token, int begin) {
    float weight = of_head.weight[token];
    if (of_head.is_rescaled) weight = token < begin ? 0.0F : std::exp(weight - of_head.offset);
    return weight * of_head.scale;
  }

  KVSIM_DEVICE float largest_logit(const float* logit, int begin) {
    return block_.reduce(
        slots_.count, -INFINITY,
        [&](int slot) {
          const bool counts = slots_.score[slot] != kEvictedScore && slots_.token[slot] >= begin;
          return counts ? logit[slots_.token[slot]] : -INFINITY;
        },
        Larger());
  }

  KVSIM_DEVICE double rescaled_weight_sum(const float* logit, int begin, float largest) {
    return block_.reduce(
        slots_.count, 0.0,
        [&](int slot) -> double {
          const bool counts = slots_.score[slot] != kEvictedScore && slots_.token[slot] >= begin;
          return counts ? std::exp(logit[slots_.token[slot]] - largest) : 0.0F;
        },
        Sum());
  }

  Block& block_;
  const Batch& batch_;
  int replay_;
  const ReplayTask& task_;
  int num_heads_;
  Slots slots_ = {};
};

}  // namespace kvsim::gpu
