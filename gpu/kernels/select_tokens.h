#pragma once

#include <bit>
#include <cmath>

#include "gpu/kernels/attended.h"
#include "gpu/kernels/find_ranked_key.h"
#include "sim/attention/pivotal.h"
#include "sim/attention/rescaled_step.h"

namespace kvsim::gpu {

/// One step of a policy that evicts nothing and attends to the newest token and to as many older
/// ones as a cache may hold, those with the most full attention at this step, the later token first
/// among equals. CPU counterparts: Cache::select() in sim/cache and CachedAttention in sim/outputs.
template <class Block>
class TokenSelection {
 public:
  KVSIM_DEVICE TokenSelection(Block& block, const Batch& batch, int replay, int step_in_block)
      : block_(block),
        batch_(batch),
        replay_(replay),
        task_(batch.replays[replay]),
        num_heads_(batch.shape.group_size),
        step_(batch.first_step + step_in_block),
        begin_(batch.first_visible(task_.unit, step_)),
        first_row_(step_in_block * num_heads_) {}

  KVSIM_DEVICE void run() {
    choose();
    list_ = static_cast<std::int32_t*>(block_.on_chip(sizeof(std::int32_t) * batch_.width()));
    if (list_ != nullptr) {
      num_listed_ = block_.select(
          step_ + 1, [&](int token) { return is_kept(token); },
          [&](int token, int place) { list_[place] = token; });
    }
    for (int head = 0; head < num_heads_; ++head) attend(first_row_ + head);
  }

 private:
  // The same as Cache::select(): protected tokens come first, then those with the most attention.
  KVSIM_DEVICE void choose() {
    const bool is_prompt = step_ < batch_.shape.prompt_length;
    const int older =
        task_.never ? task_.budget + step_ - batch_.shape.prompt_length : task_.most_held;
    const int chosen = is_prompt ? step_ : min_of(older, step_);
    const int first = min_of(task_.protect_first, chosen);
    // The newest token, which is always attended to, takes one place of the protected window.
    const int window = task_.protect_newest > 0 ? task_.protect_newest - 1 : 0;
    const int newest = min_of(window, min_of(chosen - first, step_ - first));
    first_candidate_ = first;
    end_candidate_ = step_ - newest;
    const int places = chosen - first - newest;
    least_ = kNever;
    if (places == 0) return;
    const int num_candidates = end_candidate_ - first_candidate_;
    const auto lowest = find_ranked_key<std::uint32_t>(
        block_, num_candidates, places - 1, [&](int i) { return bits_of(first_candidate_ + i); });
    least_ = lowest.key;
    const int equal_places = places - lowest.num_larger;
    // Among equals the later tokens are kept: the keys are positions, counted from 1, 0 for others.
    const auto first_equal =
        find_ranked_key<std::uint32_t>(block_, num_candidates, equal_places - 1, [&](int i) {
          return bits_of(first_candidate_ + i) == least_ ? static_cast<std::uint32_t>(i) + 1 : 0U;
        });
    first_equal_ = first_candidate_ + static_cast<int>(first_equal.key) - 1;
  }

  // Non-negative floats have the same order as their bits.
  KVSIM_DEVICE std::uint32_t bits_of(int token) const {
    return std::bit_cast<std::uint32_t>(full_attention(batch_, task_.unit, first_row_, token));
  }

  KVSIM_DEVICE bool is_kept(int token) const {
    if (token < first_candidate_ || token >= end_candidate_) return true;
    if (least_ == kNever) return false;
    const std::uint32_t bits = bits_of(token);
    return bits > least_ || (bits == least_ && token >= first_equal_);
  }

  // The sum of value(token) over the selected tokens.
  template <class Value>
  KVSIM_DEVICE double sum_kept(Value value) const {
    double sum = 0;
    if (list_ != nullptr) {
      for (int i = 0; i < num_listed_; ++i) sum += value(list_[i]);
      return sum;
    }
    for (int token = 0; token <= step_; ++token) {
      if (is_kept(token)) sum += value(token);
    }
    return sum;
  }

  KVSIM_DEVICE void attend(int row) {
    const std::size_t of_unit = batch_.block_row(task_.unit, row);
    const float* weight = batch_.weight + of_unit * batch_.shape.num_tokens;
    const double full_weight = batch_.weight_sum[of_unit];
    Attended attended = block_.reduce(
        step_ + 1, Attended{0, 0, 0},
        [&](int token) -> Attended {
          if (!is_kept(token)) return {0, 0, 0};
          return {weight[token], is_pivotal(weight[token], full_weight, step_), token >= begin_};
        },
        Sum());
    attended.weight_sum += batch_.sink_weight[of_unit];
    const bool is_missing = attended.num_visible < step_ + 1 - begin_;
    const double difference = is_missing ? difference_of(row, attended.weight_sum) : 0;
    block_.once([&] {
      record_loss(batch_, replay_, row, attended, is_missing);
      batch_.difference[batch_.text_row(replay_, row)] = difference;
    });
  }

  KVSIM_DEVICE double difference_of(int row, double kept) {
    const std::size_t of_unit = batch_.block_row(task_.unit, row);
    const int num_dims = batch_.shape.value_dim;
    const float* weight = batch_.weight + of_unit * batch_.shape.num_tokens;
    const float* logit = batch_.logit + of_unit * batch_.shape.num_tokens;
    const float* value = batch_.value + batch_.tokens_of(task_.unit) * num_dims;
    const double* full_sum = batch_.full_sum + of_unit * num_dims;
    const double full_weight = batch_.weight_sum[of_unit];
    const float sink = batch_.sink_of(task_.unit, row);
    const bool is_rescaled = kept < kMinWeightSum;
    float offset = 0;
    if (is_rescaled) {
      offset = block_.reduce(
          step_ + 1, -INFINITY,
          [&](int token) { return token >= begin_ && is_kept(token) ? logit[token] : -INFINITY; },
          Larger());
      offset = Larger()(offset, sink);
    }
    const auto weight_of = [&](int token) -> double {
      if (!is_rescaled) return weight[token];
      return token < begin_ ? 0.0F : std::exp(logit[token] - offset);
    };
    const double kept_sum = is_rescaled ? sum_kept(weight_of) + weight_of_sink(sink, offset) : kept;
    return std::sqrt(block_.reduce(
        num_dims, 0.0,
        [&](int d) {
          const double sum = sum_kept([&](int token) {
            return weight_of(token) * value[static_cast<std::size_t>(token) * num_dims + d];
          });
          const double by = full_sum[d] / full_weight - sum / kept_sum;
          return by * by;
        },
        Sum()));
  }

  static constexpr std::uint32_t kNever = 0xffffffff;

  Block& block_;
  const Batch& batch_;
  int replay_;
  ReplayTask task_;
  int num_heads_;
  int step_;
  int begin_;      // the first visible token
  int first_row_;  // of the block, that of the first head
  int first_candidate_ = 0;
  int end_candidate_ = 0;
  std::uint32_t least_ = kNever;  // least attention of a selected candidate, as bits
  int first_equal_ = 0;           // of the tokens with just that much, those from here on are kept
  std::int32_t* list_ = nullptr;  // the selected tokens, if they fit in on-chip memory
  int num_listed_ = 0;
};

template <class Block>
KVSIM_DEVICE void select_tokens(Block& block, const Batch& batch, int index) {
  const int replay = index / batch.num_steps;
  if (!batch.replays[replay].selects) return;
  TokenSelection<Block>(block, batch, replay, index % batch.num_steps).run();
}

}  // namespace kvsim::gpu
