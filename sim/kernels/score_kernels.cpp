#include "sim/kernels/score_kernels.h"

#include <algorithm>

#include "sim/base/float_lanes.h"
#include "sim/kernels/attention_kernels.h"
#include "sim/kernels/lowest_by_lane.h"
#include "sim/kernels/transpose_tile.h"

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

template <ScoreRule::Kind kKind>
KVSIM_INLINE void update_range(const ScoreRule& any, const ScoredStep& step, const Slots& slots,
                               std::size_t begin, std::size_t end) {
  ScoreRule rule = any;
  rule.kind = kKind;
  // There may be no weights where none are read.
  const float* weight = rule.reads_attention() ? slots.weight.data() + begin : nullptr;
  const std::int32_t* token = slots.tokens.data() + begin;
  double* scores = slots.scores.data() + begin;
  const std::size_t count = end - begin;
  KVSIM_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < count; ++i) {
    const double score = scores[i];
    const float attention = rule.reads_attention() ? weight[i] * slots.scale : 0;
    const double next = next_score(rule, step, token[i], score, attention);
    // Finite attention leaves an infinite sum as it is.
    scores[i] = kKind != ScoreRule::Kind::sum && score == kEvictedScore ? kEvictedScore : next;
  }
}

// Sources of LowestByLane.
template <class Target>
struct StoredScores {
  const double* score;

  KVSIM_INLINE void load(std::size_t at, typename Vectors<Target>::Doubles& scores) const {
    kvsim::load(scores, score + at);
  }
  KVSIM_INLINE double operator[](std::size_t at) const { return score[at]; }
};

// Updates sums as it loads them. Its members are copies: if they were references, the compiler
// would have to assume that storing a score changes them.
template <class Target>
struct UpdatedSums {
  const float* weight;
  double* score;
  float factor;

  KVSIM_INLINE void load(std::size_t at, typename Vectors<Target>::Doubles& scores) const {
    typename Vectors<Target>::HalfFloats attention;
    typename Vectors<Target>::Doubles more;
    kvsim::load(attention, weight + at);
    attention *= factor;
    convert(more, attention);
    kvsim::load(scores, score + at);
    scores += more;
    store(scores, score + at);
  }
};

template <class Target>
struct AttentionScores {
  const float* weight;
  const float* gap;
  float scale;

  KVSIM_INLINE void load(std::size_t at, typename Vectors<Target>::Floats& scores) const {
    typename Vectors<Target>::Floats gaps;
    kvsim::load(scores, weight + at);
    kvsim::load(gaps, gap + at);
    scores = scores * scale + gaps;
  }
  KVSIM_INLINE float operator[](std::size_t at) const { return weight[at] * scale + gap[at]; }
};

template <class Target, ScoreRule::Kind kKind>
KVSIM_INLINE LowestScore update_by(const ScoreRule& rule, const ScoredStep& step,
                                   const Slots& slots, std::size_t begin, std::size_t end) {
  const StoredScores<Target> stored{slots.scores.data()};
  const UpdatedSums<Target> sums{slots.weight.data(), slots.scores.data(), rule.sign * slots.scale};
  update_range<kKind>(rule, step, slots, 0, begin);
  LowestDouble<Target> lowest(begin);
  std::size_t i = begin;
  for (; i + kLowestGroup <= end; i += kLowestGroup) {
    if constexpr (kKind == ScoreRule::Kind::sum) {
      lowest.scan(sums, i, kLowestGroup);
    } else {
      update_range<kKind>(rule, step, slots, i, i + kLowestGroup);
      lowest.scan(stored, i, kLowestGroup);
    }
  }
  update_range<kKind>(rule, step, slots, i, slots.scores.size());
  return lowest.finish(stored, i, end);
}

template <class Target>
KVSIM_INLINE LowestScore update(const ScoreRule& rule, const ScoredStep& step, const Slots& slots,
                                std::size_t begin, std::size_t end) {
  switch (rule.kind) {
    case ScoreRule::Kind::attention:
      return update_by<Target, ScoreRule::Kind::attention>(rule, step, slots, begin, end);
    case ScoreRule::Kind::sum:
      return update_by<Target, ScoreRule::Kind::sum>(rule, step, slots, begin, end);
    case ScoreRule::Kind::mean:
      return update_by<Target, ScoreRule::Kind::mean>(rule, step, slots, begin, end);
    case ScoreRule::Kind::recency:
      return update_by<Target, ScoreRule::Kind::recency>(rule, step, slots, begin, end);
    case ScoreRule::Kind::frequency:
      return update_by<Target, ScoreRule::Kind::frequency>(rule, step, slots, begin, end);
    case ScoreRule::Kind::random:
      return update_by<Target, ScoreRule::Kind::random>(rule, step, slots, begin, end);
    case ScoreRule::Kind::columns:
      return update_by<Target, ScoreRule::Kind::columns>(rule, step, slots, begin, end);
    case ScoreRule::Kind::blocks:
      return update_by<Target, ScoreRule::Kind::blocks>(rule, step, slots, begin, end);
    default:
      return update_by<Target, ScoreRule::Kind::newest>(rule, step, slots, begin, end);
  }
}

KVSIM_KERNEL(LowestScore, update,
             (const ScoreRule& rule, const ScoredStep& step, const Slots& slots, std::size_t begin,
              std::size_t end),
             (rule, step, slots, begin, end))

template <class Target>
KVSIM_INLINE void sum_rows(const float* rows, const std::int32_t* tokens, std::size_t count,
                           double sign, double* sum) {
  using Doubles = typename Vectors<Target>::Doubles;
  // A part of the steps, whose sums stay in registers.
  constexpr int kVectors = std::min(8, kBlockSteps / kDoubles<Target>);
  constexpr int kSteps = kVectors * kDoubles<Target>;
  for (int step = 0; step < kBlockSteps; step += kSteps) {
    Doubles sums[kVectors] = {};
    for (std::size_t i = 0; i < count; ++i) {
      const float* row = rows + static_cast<std::ptrdiff_t>(tokens[i]) * kBlockSteps + step;
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        Doubles doubles;
        convert(doubles, row + v * kDoubles<Target>);
        sums[v] += doubles;
      }
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      double* to = sum + step + v * kDoubles<Target>;
      Doubles total;
      load(total, to);
      total += sign * sums[v];
      store(total, to);
    }
  }
}
KVSIM_KERNEL(void, sum_rows,
             (const float* rows, const std::int32_t* tokens, std::size_t count, double sign,
              double* sum),
             (rows, tokens, count, sign, sum))

template <class Target>
KVSIM_INLINE LowestScore find_lowest(const double* score, std::size_t count) {
  return LowestDouble<Target>::of(StoredScores<Target>{score}, 0, count);
}
KVSIM_KERNEL(LowestScore, find_lowest, (const double* score, std::size_t count), (score, count))

template <class Target>
KVSIM_INLINE LowestScore find_least(const float* weight, const float* gap, float scale,
                                    std::size_t begin, std::size_t end) {
  return LowestFloat<Target>::of(AttentionScores<Target>{weight, gap, scale}, begin, end);
}
KVSIM_KERNEL(LowestScore, find_least,
             (const float* weight, const float* gap, float scale, std::size_t begin,
              std::size_t end),
             (weight, gap, scale, begin, end))

}  // namespace

void set_attention(std::span<const float> weight, float scale, float* mean) {
  best_set_scaled(weight.data(), weight.size(), scale, mean);
}

void add_attention(std::span<const float> weight, float scale, float* mean) {
  best_add_scaled(weight.data(), weight.size(), scale, mean);
}

LowestScore update_scores(const ScoreRule& rule, const ScoredStep& step, const Slots& slots,
                          std::size_t begin, std::size_t end) {
  return best_update(rule, step, slots, begin, end);
}

LowestScore lowest(std::span<const double> scores) {
  return best_find_lowest(scores.data(), scores.size());
}

LowestScore least_attention(std::span<const float> weight, float scale, std::span<const float> gaps,
                            std::size_t begin, std::size_t end) {
  return best_find_least(weight.data(), gaps.data(), scale, begin, end);
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
