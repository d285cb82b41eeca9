#include "sim/kernels/score_kernels.h"

#include <algorithm>

#include "sim/kernels/attention_kernels.h"
#include "sim/kernels/float_lanes.h"
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

// Slots that are reduced together, before their lowest scores are compared with those so far.
constexpr std::size_t kGroup = 32;

// Per lane of a vector, the lowest score, the first group that has it, and whether another group
// has it. Groups are scanned in order.
template <class Target>
class LowestByLane {
  using Scores = typename Vectors<Target>::Doubles;
  using Longs = typename Vectors<Target>::Longs;
  static constexpr std::size_t kScores = kDoubles<Target>;

 public:
  KVSIM_INLINE explicit LowestByLane(std::size_t begin) : group_(Longs{} + std::int64_t(begin)) {}

  /// `count` is a multiple of kScores, at most kGroup.
  KVSIM_INLINE void scan(const double* score, std::size_t begin, std::size_t count) {
    Scores next;
    load(next, score + begin);
    for (std::size_t i = kScores; i < count; i += kScores) {
      Scores more;
      load(more, score + begin + i);
      lower(next, more);
    }
    const Longs is_lower = next < low_;
    group_ = is_lower ? Longs{} + std::int64_t(begin) : group_;
    is_tied_ = ~is_lower & (is_tied_ | (next == low_));
    lower(low_, next);
  }

  /// Scans the rest, begin .. end - 1.
  KVSIM_INLINE LowestScore finish(const double* score, std::size_t begin, std::size_t end) {
    for (; begin + kScores <= end; begin += kScores) scan(score, begin, kScores);
    double low = low_[0];
    for (std::size_t lane = 1; lane < kScores; ++lane) low = low_[lane] < low ? low_[lane] : low;
    std::size_t lowest = end;
    std::size_t times = 0;
    for (std::size_t lane = 0; lane < kScores; ++lane) {
      if (low_[lane] != low) continue;
      if (is_tied_[lane] != 0) ++times;
      const auto group = static_cast<std::size_t>(group_[lane]);
      for (std::size_t i = group + lane; i < std::min(group + kGroup, begin); i += kScores) {
        if (score[i] != low) continue;
        lowest = std::min(lowest, i);
        ++times;
      }
    }
    for (std::size_t i = begin; i < end; ++i) {
      if (score[i] > low) continue;
      if (score[i] < low || times == 0) lowest = i;
      times = score[i] < low ? 1 : times + 1;
      low = score[i];
    }
    return {lowest, times > 1};
  }

 private:
  KVSIM_INLINE static void lower(Scores& scores, const Scores& by) {
    scores = by < scores ? by : scores;
  }

  Scores low_ = Scores{} + kEvictedScore;
  Longs group_;
  Longs is_tied_ = {};
};

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

template <class Target, ScoreRule::Kind kKind>
KVSIM_INLINE LowestScore update_by(const ScoreRule& rule, const ScoredStep& step,
                                   const Slots& slots, std::size_t begin, std::size_t end) {
  const double* score = slots.scores.data();
  update_range<kKind>(rule, step, slots, 0, begin);
  LowestByLane<Target> lowest(begin);
  std::size_t i = begin;
  for (; i + kGroup <= end; i += kGroup) {
    update_range<kKind>(rule, step, slots, i, i + kGroup);
    lowest.scan(score, i, kGroup);
  }
  update_range<kKind>(rule, step, slots, i, slots.scores.size());
  return lowest.finish(score, i, end);
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
        load_as_doubles<Target>(doubles, row + v * kDoubles<Target>);
        sums[v] += doubles;
      }
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      double of_steps[kDoubles<Target>];
      store(sums[v], of_steps);
      double* to = sum + step + v * kDoubles<Target>;
      for (int i = 0; i < kDoubles<Target>; ++i) to[i] += sign * of_steps[i];
    }
  }
}
KVSIM_KERNEL(void, sum_rows,
             (const float* rows, const std::int32_t* tokens, std::size_t count, double sign,
              double* sum),
             (rows, tokens, count, sign, sum))

template <class Target>
KVSIM_INLINE LowestScore find_lowest(const double* score, std::size_t count) {
  LowestByLane<Target> lowest(0);
  std::size_t i = 0;
  for (; i + kGroup <= count; i += kGroup) lowest.scan(score, i, kGroup);
  return lowest.finish(score, i, count);
}
KVSIM_KERNEL(LowestScore, find_lowest, (const double* score, std::size_t count), (score, count))

template <class Target>
KVSIM_INLINE std::size_t count_score(const double* scores, std::size_t count, double score) {
  std::size_t equal = 0;
  for (std::size_t i = 0; i < count; ++i) equal += scores[i] == score ? 1 : 0;
  return equal;
}
KVSIM_KERNEL(std::size_t, count_score, (const double* scores, std::size_t count, double score),
             (scores, count, score))

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

std::size_t count_equal(std::span<const double> scores, double score) {
  return best_count_score(scores.data(), scores.size(), score);
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
