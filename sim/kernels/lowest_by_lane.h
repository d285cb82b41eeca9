#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "sim/base/float_lanes.h"
#include "sim/kernels/score_kernels.h"

namespace kvsim {

/// Slots that are reduced together, before their lowest scores are compared with those so far.
inline constexpr std::size_t kLowestGroup = 32;

/// Finds the lowest score: per lane of a vector, the lowest so far, the first group of slots that
/// has it, and whether another group has it. Groups are scanned in order. Scores are vectors of
/// doubles or floats, Places of integers of the same size.
template <class Scores, class Places>
class LowestByLane {
  using Score = std::remove_cvref_t<decltype(Scores{}[0])>;
  using Place = std::remove_cvref_t<decltype(Places{}[0])>;
  static constexpr std::size_t kScores = sizeof(Scores) / sizeof(Score);
  static constexpr Score kNone = std::numeric_limits<Score>::infinity();

 public:
  KVSIM_INLINE explicit LowestByLane(std::size_t begin)
      : begin_(begin), group_(Places{} + static_cast<Place>(begin)) {}

  /// Scans slots begin .. begin + count - 1; `count` is a multiple of kScores, at most
  /// kLowestGroup. source.load(slot, scores) sets a vector of scores.
  template <class Source>
  KVSIM_INLINE void scan(const Source& source, std::size_t begin, std::size_t count) {
    Scores next;
    source.load(begin, next);
#pragma GCC unroll 16
    for (std::size_t i = kScores; i < count; i += kScores) {
      Scores more;
      source.load(begin + i, more);
      lower(next, more);
    }
    const Places is_lower = next < low_;
    group_ = is_lower ? Places{} + static_cast<Place>(begin) : group_;
    is_tied_ = ~is_lower & (is_tied_ | (next == low_));
    lower(low_, next);
  }

  /// Scans the rest, begin .. end - 1. source[slot] is one score, as load() has set it.
  template <class Source>
  KVSIM_INLINE LowestScore finish(const Source& source, std::size_t begin, std::size_t end) {
    for (; begin + kScores <= end; begin += kScores) scan(source, begin, kScores);
    Score low = low_[0];
    for (std::size_t lane = 1; lane < kScores; ++lane) low = low_[lane] < low ? low_[lane] : low;
    // Bits in place of branches, which would be mispredicted.
    unsigned lanes = 0;
    for (std::size_t lane = 0; lane < kScores; ++lane) lanes |= unsigned{low_[lane] == low} << lane;
    if (begin == begin_) lanes = 0;
    std::size_t lowest = end;
    std::size_t times = 0;
    for (; lanes != 0; lanes &= lanes - 1) {
      const auto lane = static_cast<std::size_t>(std::countr_zero(lanes));
      const std::size_t first = static_cast<std::size_t>(group_[lane]) + lane;
      unsigned places = 0;
      for (std::size_t i = 0; i < kLowestGroup / kScores; ++i) {
        const std::size_t slot = first + i * kScores;
        const bool is_low = source[std::min(slot, begin - 1)] == low;
        places |= unsigned{slot < begin && is_low} << i;
      }
      lowest = std::min(lowest, first + std::countr_zero(places) * kScores);
      times += std::popcount(places) + unsigned{is_tied_[lane] != 0};
    }
    for (std::size_t i = begin; i < end; ++i) {
      const Score score = source[i];
      if (score > low) continue;
      if (score < low || times == 0) lowest = i;
      times = score < low ? 1 : times + 1;
      low = score;
    }
    return {lowest, times > 1};
  }

  /// The lowest of slots begin .. end - 1.
  template <class Source>
  KVSIM_INLINE static LowestScore of(const Source& source, std::size_t begin, std::size_t end) {
    LowestByLane lowest(begin);
    for (; begin + kLowestGroup <= end; begin += kLowestGroup) {
      lowest.scan(source, begin, kLowestGroup);
    }
    return lowest.finish(source, begin, end);
  }

 private:
  KVSIM_INLINE static void lower(Scores& scores, const Scores& by) {
    scores = by < scores ? by : scores;
  }

  std::size_t begin_;
  Scores low_ = Scores{} + kNone;
  Places group_;
  Places is_tied_ = {};
};

template <class Target>
using LowestDouble =
    LowestByLane<typename Vectors<Target>::Doubles, typename Vectors<Target>::Longs>;
template <class Target>
using LowestFloat = LowestByLane<typename Vectors<Target>::Floats, typename Vectors<Target>::Ints>;

}  // namespace kvsim
