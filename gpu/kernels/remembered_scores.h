#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "gpu/kernels/attended.h"

namespace kvsim::gpu {

/// The slots of one cache. A slot whose token has been evicted is a gap: its score is
/// kEvictedScore.
struct Slots {
  std::int32_t* token;  ///< ascending
  double* score;
  float* attention;  ///< of this step, mean over the query heads
  int count = 0;     ///< gaps included
  int num_held = 0;  ///< gaps excluded
};

/// Bytes that a rule keeps per replay in addition to a score per slot.
inline std::size_t remembered_bytes(const ScoreRule& rule, const Shape& shape) {
  const auto tokens = static_cast<std::size_t>(shape.num_tokens);
  const std::size_t steps = std::min(static_cast<std::size_t>(rule.length), tokens);
  switch (rule.kind) {
    case ScoreRule::Kind::unimportance:
      return steps * tokens * sizeof(bool);
    case ScoreRule::Kind::votes:
      return tokens * (2 * sizeof(double) + steps * sizeof(float));
    case ScoreRule::Kind::key_difference:
      return (tokens + static_cast<std::size_t>(shape.head_dim)) * sizeof(double);
    default:
      return 0;
  }
}

/// The score rules that keep more than a score per token.
/// CPU counterparts: the policies scissorhands, snapkv and keydiff.
template <class Block>
class RememberedScores {
 public:
  KVSIM_DEVICE RememberedScores(Block& block, const Batch& batch, const ReplayTask& task)
      : block_(block),
        batch_(batch),
        rule_(task.rule),
        unit_(task.unit),
        memory_(batch.remembered + task.remembered) {}

  /// Updates the scores after step `step`, whose token is in the last slot and which evicts
  /// `overflow` tokens.
  KVSIM_DEVICE void update(int step, int overflow, const Slots& slots) {
    if (rule_.kind == ScoreRule::Kind::key_difference) return compare_keys(step, overflow, slots);
    block_.each(slots.count, [&](int slot) {
      if (slots.score[slot] == kEvictedScore) return;
      add(step, slots.token[slot], slots.attention[slot], slots.score[slot]);
    });
    if (rule_.kind == ScoreRule::Kind::votes && overflow > 0) pool_votes(slots);
  }

  /// What update() does for one token after a step that evicts none. One thread at a time may have
  /// a token.
  KVSIM_DEVICE void add(int step, int token, float attention, double& score) {
    switch (rule_.kind) {
      case ScoreRule::Kind::unimportance:
        return count_unimportant(step, token, attention, score);
      case ScoreRule::Kind::votes:
        return vote(step, token, attention);
      case ScoreRule::Kind::key_difference:
        if (token == step) measure_key(token);
        return;
      default:
        return;
    }
  }

 private:
  // The score is minus the count. A step adds its own entry and removes that of the step which
  // falls out of the history.
  KVSIM_DEVICE void count_unimportant(int step, int token, float attention, double& score) {
    bool& entry = reinterpret_cast<bool*>(memory_)[row_of(step) + token];
    const bool was = step - token >= rule_.length && entry;
    const bool is = attention < 1 / static_cast<float>(step + 1);
    entry = is;
    score += static_cast<int>(was) - static_cast<int>(is);
  }

  KVSIM_DEVICE void vote(int step, int token, float attention) {
    auto* sum = reinterpret_cast<double*>(memory_);
    auto* history = reinterpret_cast<float*>(sum + 2 * batch_.tokens_of(1));
    float& entry = history[row_of(step) + token];
    const double before = token == step ? 0 : sum[token];
    const double leaving = step - token >= rule_.length ? entry : 0;
    sum[token] = before + attention - leaving;
    entry = attention;
  }

  KVSIM_DEVICE void pool_votes(const Slots& slots) {
    if (slots.num_held <= rule_.length) return;
    auto* sum = reinterpret_cast<double*>(memory_);
    double* pool = sum + batch_.shape.num_tokens;
    // The newest tokens are protected, so there are no gaps among them.
    const int end = slots.count - rule_.length;
    block_.each(end, [&](int slot) {
      if (slots.score[slot] != kEvictedScore) pool[slots.token[slot]] = pooled(sum, slot, slots);
    });
    block_.each(end, [&](int slot) {
      if (slots.score[slot] != kEvictedScore) slots.score[slot] = pool[slots.token[slot]];
    });
  }

  // Maximum or sum of the votes over the slot and rule_.part / 2 held neighbours on either side.
  KVSIM_DEVICE double pooled(const double* sum, int slot, const Slots& slots) const {
    int first = slot;
    int count = (rule_.part + 1) / 2;
    for (int place = slot - 1, left = rule_.part / 2; place >= 0 && left > 0; --place) {
      if (slots.score[place] == kEvictedScore) continue;
      first = place;
      ++count;
      --left;
    }
    double pool = rule_.adds ? 0 : -INFINITY;
    for (int place = first; place < slots.count - rule_.length && count > 0; ++place) {
      if (slots.score[place] == kEvictedScore) continue;
      const double votes = sum[slots.token[place]];
      pool = rule_.adds ? pool + votes : votes > pool ? votes : pool;
      --count;
    }
    return pool;
  }

  // The cosine of a zero key is 0; DBL_MIN avoids a division by 0.
  KVSIM_DEVICE void note_length(int token, double square) {
    reinterpret_cast<double*>(memory_)[token] = square > 0 ? std::sqrt(square) : DBL_MIN;
  }

  KVSIM_DEVICE double square_of_key(int token, int d) const {
    return static_cast<double>(key_of(token)[d]) * key_of(token)[d];
  }

  KVSIM_DEVICE void measure_key(int token) {
    double square = 0;
    for (int d = 0; d < batch_.shape.head_dim; ++d) square += square_of_key(token, d);
    note_length(token, square);
  }

  KVSIM_DEVICE void compare_keys(int step, int overflow, const Slots& slots) {
    auto* length = reinterpret_cast<double*>(memory_);
    double* mean = length + batch_.shape.num_tokens;
    const int num_dims = batch_.shape.head_dim;
    const double square = block_.reduce(
        num_dims, 0.0, [&](int d) { return square_of_key(step, d); }, Sum());
    block_.once([&] { note_length(step, square); });
    if (overflow == 0) return;
    block_.each(num_dims, [&](int d) {
      double sum = 0;
      for (int slot = 0; slot < slots.count; ++slot) {
        if (slots.score[slot] == kEvictedScore) continue;
        const int token = slots.token[slot];
        sum += 1 / length[token] * key_of(token)[d];
      }
      mean[d] = sum;
    });
    block_.each(slots.count, [&](int slot) {
      if (slots.score[slot] == kEvictedScore) return;
      const int token = slots.token[slot];
      double product = 0;
      for (int d = 0; d < num_dims; ++d) product += key_of(token)[d] * mean[d];
      slots.score[slot] = -product / length[token];
    });
  }

  KVSIM_DEVICE const float* key_of(int token) const {
    return batch_.key + (batch_.tokens_of(unit_) + token) * batch_.shape.head_dim;
  }

  // Index of a step's row in the history, a ring buffer of rule_.length rows.
  KVSIM_DEVICE std::size_t row_of(int step) const {
    return static_cast<std::size_t>(step % rule_.length) * batch_.shape.num_tokens;
  }

  Block& block_;
  const Batch& batch_;
  ScoreRule rule_;
  int unit_;
  std::byte* memory_;
};

}  // namespace kvsim::gpu
