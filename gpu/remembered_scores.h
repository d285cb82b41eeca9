#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "gpu/attended.h"

namespace kvsim::gpu {

/// The slots of one cache, gaps scored kGone among them.
struct Slots {
  std::int32_t* token;  ///< ascending
  double* score;
  float* attention;  ///< mean over the heads at this step
  int count = 0;
  int num_held = 0;
};

/// How much a rule remembers of one replay beside a score per slot, in bytes.
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

/// Scores by the rules that remember more than a score per token.
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

  /// Scores the slots after step `step`, whose token is in the last of them; `overflow` tokens are
  /// about to leave.
  KVSIM_DEVICE void update(int step, int overflow, const Slots& slots) {
    switch (rule_.kind) {
      case ScoreRule::Kind::unimportance:
        return count_unimportant(step, slots);
      case ScoreRule::Kind::votes:
        return vote(step, overflow, slots);
      case ScoreRule::Kind::key_difference:
        return compare_keys(step, overflow, slots);
      default:
        return;
    }
  }

 private:
  // The score is minus the count: each step adds its own part and takes back that of the step that
  // leaves the history.
  KVSIM_DEVICE void count_unimportant(int step, const Slots& slots) {
    auto* history = reinterpret_cast<bool*>(memory_) + row_of(step);
    const float even_share = 1 / static_cast<float>(step + 1);
    block_.each(slots.count, [&](int slot) {
      if (slots.score[slot] == kGone) return;
      const int token = slots.token[slot];
      const bool was = step - token >= rule_.length && history[token];
      const bool is = slots.attention[slot] < even_share;
      history[token] = is;
      slots.score[slot] += static_cast<int>(was) - static_cast<int>(is);
    });
  }

  KVSIM_DEVICE void vote(int step, int overflow, const Slots& slots) {
    auto* sum = reinterpret_cast<double*>(memory_);
    double* pool = sum + batch_.shape.num_tokens;
    auto* history = reinterpret_cast<float*>(pool + batch_.shape.num_tokens) + row_of(step);
    block_.each(slots.count, [&](int slot) {
      if (slots.score[slot] == kGone) return;
      const int token = slots.token[slot];
      const float paid = slots.attention[slot];
      const double before = token == step ? 0 : sum[token];
      const double leaving = step - token >= rule_.length ? history[token] : 0;
      sum[token] = before + paid - leaving;
      history[token] = paid;
    });
    if (overflow == 0 || slots.num_held <= rule_.length) return;
    // The last tokens are protected, so that there are no gaps between them.
    const int end = slots.count - rule_.length;
    block_.each(end, [&](int slot) {
      if (slots.score[slot] != kGone) pool[slots.token[slot]] = pooled(sum, slot, slots);
    });
    block_.each(end, [&](int slot) {
      if (slots.score[slot] != kGone) slots.score[slot] = pool[slots.token[slot]];
    });
  }

  // Over half of the neighbours on either side, the slot itself included.
  KVSIM_DEVICE double pooled(const double* sum, int slot, const Slots& slots) const {
    int first = slot;
    int count = (rule_.part + 1) / 2;
    for (int place = slot - 1, left = rule_.part / 2; place >= 0 && left > 0; --place) {
      if (slots.score[place] == kGone) continue;
      first = place;
      ++count;
      --left;
    }
    double pool = rule_.adds ? 0 : -INFINITY;
    for (int place = first; place < slots.count - rule_.length && count > 0; ++place) {
      if (slots.score[place] == kGone) continue;
      const double votes = sum[slots.token[place]];
      pool = rule_.adds ? pool + votes : votes > pool ? votes : pool;
      --count;
    }
    return pool;
  }

  KVSIM_DEVICE void compare_keys(int step, int overflow, const Slots& slots) {
    auto* length = reinterpret_cast<double*>(memory_);
    double* mean = length + batch_.shape.num_tokens;
    const int num_dims = batch_.shape.head_dim;
    const double square = block_.reduce(
        num_dims, 0.0,
        [&](int d) { return static_cast<double>(key_of(step)[d]) * key_of(step)[d]; }, Sum());
    // A zero key has no direction; the least double keeps its cosine at 0.
    block_.once([&] { length[step] = square > 0 ? std::sqrt(square) : DBL_MIN; });
    if (overflow == 0) return;
    block_.each(num_dims, [&](int d) {
      double sum = 0;
      for (int slot = 0; slot < slots.count; ++slot) {
        if (slots.score[slot] == kGone) continue;
        const int token = slots.token[slot];
        sum += 1 / length[token] * key_of(token)[d];
      }
      mean[d] = sum;
    });
    block_.each(slots.count, [&](int slot) {
      if (slots.score[slot] == kGone) return;
      const int token = slots.token[slot];
      double product = 0;
      for (int d = 0; d < num_dims; ++d) product += key_of(token)[d] * mean[d];
      slots.score[slot] = -product / length[token];
    });
  }

  KVSIM_DEVICE const float* key_of(int token) const {
    return batch_.key + (batch_.tokens_of(unit_) + token) * batch_.shape.head_dim;
  }

  // Where the history keeps what it knows of a step, and of the one that this replaces.
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
