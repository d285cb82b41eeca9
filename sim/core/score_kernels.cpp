#include "sim/core/score_kernels.h"

#include <algorithm>
#include <cstring>

#include "sim/core/attention_kernels.h"
#include "sim/core/transpose_tile.h"
#include "sim/core/vector_targets.h"

namespace kvsim {
namespace {

template <class Target>
KVSIM_INLINE void set_scaled(const float* weight, std::size_t count, float scale, float* mean) {
  for (std::size_t i = 0; i < count; ++i) mean[i] = weight[i] * scale;
}
KVSIM_KERNEL(void, set_scaled, (const float* weight, std::size_t count, float scale, float* mean),
             (weight, count, scale, mean))

template <class Target>
KVSIM_INLINE void add_scaled(const float* weight, std::size_t count, float scale, float* mean) {
  for (std::size_t i = 0; i < count; ++i) mean[i] += weight[i] * scale;
}
KVSIM_KERNEL(void, add_scaled, (const float* weight, std::size_t count, float scale, float* mean),
             (weight, count, scale, mean))

struct Slots {
  const std::int32_t* token;
  const float* attention;
  double* score;
  std::size_t count;
};

template <ScoreRule::Kind kKind>
KVSIM_INLINE void update_by(const ScoredStep& step, const Slots& slots) {
  for (std::size_t i = 0; i < slots.count; ++i) {
    const double score = slots.score[i];
    const double next =
        next_score(ScoreRule{kKind}, step, slots.token[i], score, slots.attention[i]);
    slots.score[i] = score == kGone ? kGone : next;
  }
}

template <class Target>
KVSIM_INLINE void update(const ScoreRule& rule, const ScoredStep& step, const Slots& slots) {
  switch (rule.kind) {
    case ScoreRule::Kind::newest:
      return;
    case ScoreRule::Kind::attention:
      return update_by<ScoreRule::Kind::attention>(step, slots);
    case ScoreRule::Kind::sum:
      return update_by<ScoreRule::Kind::sum>(step, slots);
    case ScoreRule::Kind::mean:
      return update_by<ScoreRule::Kind::mean>(step, slots);
    case ScoreRule::Kind::recency:
      return update_by<ScoreRule::Kind::recency>(step, slots);
    case ScoreRule::Kind::frequency:
      return update_by<ScoreRule::Kind::frequency>(step, slots);
  }
}

KVSIM_KERNEL(void, update, (const ScoreRule& rule, const ScoredStep& step, const Slots& slots),
             (rule, step, slots))

using StepSums = double __attribute__((vector_size(kBlockSteps * sizeof(double))));
using StepRow = float __attribute__((vector_size(kBlockSteps * sizeof(float))));

template <class Target>
KVSIM_INLINE void sum_rows(const float* rows, const std::int32_t* tokens, std::size_t count,
                           double sign, double* sum) {
  StepSums sums = {};
  for (std::size_t i = 0; i < count; ++i) {
    StepRow row;
    std::memcpy(&row, rows + static_cast<std::ptrdiff_t>(tokens[i]) * kBlockSteps, sizeof row);
    sums += __builtin_convertvector(row, StepSums);
  }
  for (int step = 0; step < kBlockSteps; ++step) sum[step] += sign * sums[step];
}
KVSIM_KERNEL(void, sum_rows,
             (const float* rows, const std::int32_t* tokens, std::size_t count, double sign,
              double* sum),
             (rows, tokens, count, sign, sum))

constexpr std::size_t kScores = 8;

using Scores = double __attribute__((vector_size(kScores * sizeof(double))));
using Places = std::int64_t __attribute__((vector_size(kScores * sizeof(std::int64_t))));

// Each lane keeps the first of its lowest scores; four vectors at a time keep them independent.
template <class Target>
KVSIM_INLINE std::size_t find_lowest(const double* score, std::size_t count) {
  constexpr std::size_t kStride = 4 * kScores;
  std::size_t lowest = 0;
  std::size_t i = 0;
  if (count >= kStride) {
    Scores low[4];
    Places place[4];
    std::memcpy(low, score, sizeof low);
    for (std::int64_t k = 0; k < 4; ++k) place[k] = Places{0, 1, 2, 3, 4, 5, 6, 7} + k * 8;
    Places at[4] = {};
    for (i = kStride; i + kStride <= count; i += kStride) {
      Scores next[4];
      std::memcpy(next, score + i, sizeof next);
      for (int k = 0; k < 4; ++k) {
        const Places is_lower = next[k] < low[k];
        low[k] = is_lower ? next[k] : low[k];
        at[k] = is_lower ? Places{} + static_cast<std::int64_t>(i) : at[k];
      }
    }
    place[0] += at[0];
    for (int k = 1; k < 4; ++k) {
      place[k] += at[k];
      const Places is_first = (low[k] < low[0]) | ((low[k] == low[0]) & (place[k] < place[0]));
      low[0] = is_first ? low[k] : low[0];
      place[0] = is_first ? place[k] : place[0];
    }
    lowest = static_cast<std::size_t>(place[0][0]);
    for (std::size_t k = 1; k < kScores; ++k) {
      const auto other = static_cast<std::size_t>(place[0][k]);
      const bool ties = score[other] == score[lowest];
      if (score[other] < score[lowest] || (ties && other < lowest)) lowest = other;
    }
  }
  for (; i < count; ++i) {
    if (score[i] < score[lowest]) lowest = i;
  }
  return lowest;
}
KVSIM_KERNEL(std::size_t, find_lowest, (const double* score, std::size_t count), (score, count))

}  // namespace

void set_attention(std::span<const float> weight, float scale, float* mean) {
  best_set_scaled(weight.data(), weight.size(), scale, mean);
}

void add_attention(std::span<const float> weight, float scale, float* mean) {
  best_add_scaled(weight.data(), weight.size(), scale, mean);
}

void update_scores(const ScoreRule& rule, const ScoredStep& step,
                   std::span<const std::int32_t> tokens, std::span<const float> attention,
                   std::span<double> scores) {
  best_update(rule, step, {tokens.data(), attention.data(), scores.data(), scores.size()});
}

std::size_t lowest(std::span<const double> scores) {
  return best_find_lowest(scores.data(), scores.size());
}

void gather_rows(const AlignedRows& by_token, std::span<const std::int32_t> tokens,
                 AlignedRows& rows) {
  const std::size_t whole = tokens.size() / kTile * kTile;
  for (std::size_t slot = 0; slot < whole; slot += kTile) {
    const float* from[kTile];
    for (int i = 0; i < kTile; ++i) from[i] = by_token.row(tokens[slot + i]);
    for (int step = 0; step < kBlockSteps; step += kTile) {
      float* to[kTile];
      for (int i = 0; i < kTile; ++i) to[i] = rows.row(step + i) + slot;
      transpose_tile(from, step, to, 0);
    }
  }
  for (std::size_t slot = whole; slot < tokens.size(); ++slot) {
    for (int step = 0; step < kBlockSteps; ++step) {
      rows.row(step)[slot] = by_token.row(tokens[slot])[step];
    }
  }
}

void add_rows(const AlignedRows& by_token, std::span<const std::int32_t> tokens, double sign,
              double* sum) {
  best_sum_rows(by_token.row(0), tokens.data(), tokens.size(), sign, sum);
}

}  // namespace kvsim
