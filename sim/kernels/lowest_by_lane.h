#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>

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
    Scores all = low_;
    for_each_half([&]<std::size_t kApart>() __attribute__((always_inline)) {
      Scores other;
      exchange_lanes<kApart>(all, other);
      lower(all, other);
    });
    Score low = all[0];
    std::size_t lowest = end;
    std::size_t times = 0;
    if (begin > begin_) {
      const Places is_low = low_ == all;
      Places first;
      Places count = is_low + (is_low & is_tied_);  // negative
      set_first(is_low, first);
      for_each_half([&]<std::size_t kApart>() __attribute__((always_inline)) {
        Places other;
        exchange_lanes<kApart>(first, other);
        first = other < first ? other : first;
        exchange_lanes<kApart>(count, other);
        count += other;
      });
      if (count[0] == -1) {  // most often one lane has it
        find_in_group(source, first[0], begin, low, lowest, times);
      } else {
        for (std::size_t lane = 0; lane < kScores; ++lane) {
          if (is_low[lane] == 0) continue;
          times += unsigned{is_tied_[lane] != 0};
          find_in_group(source, group_[lane] + static_cast<Place>(lane), begin, low, lowest, times);
        }
      }
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
  // Calls work.operator()<kApart>() for half of the lanes, a quarter, .. 1: what combines each lane
  // with the one that is kApart away combines all.
  template <std::size_t kApart = kScores / 2, class Work>
  KVSIM_INLINE static void for_each_half(const Work& work) {
    work.template operator()<kApart>();
    if constexpr (kApart > 1) for_each_half<kApart / 2>(work);
  }

  template <std::size_t kApart, class Vector>
  KVSIM_INLINE static void exchange_lanes(const Vector& vector, Vector& exchanged) {
    const auto set = [&]<std::size_t... i>(std::index_sequence<i...>)
        __attribute__((always_inline)) {
      exchanged = __builtin_shufflevector(vector, vector, (i ^ kApart)...);
    };
    set(std::make_index_sequence<kScores>());
  }

  // The first slot of each lane's group that is of the lane, where it has the lowest score.
  KVSIM_INLINE void set_first(const Places& is_low, Places& first) const {
    const auto set = [&]<std::size_t... i>(std::index_sequence<i...>)
        __attribute__((always_inline)) {
      first = is_low ? group_ + Places{Place{i}...} : Places{} + std::numeric_limits<Place>::max();
    };
    set(std::make_index_sequence<kScores>());
  }

  // Counts the lane's slots of a group that have the score `low`; `lowest` becomes the first if it
  // is later. Bits in place of branches, which would be mispredicted.
  template <class Source>
  KVSIM_INLINE static void find_in_group(const Source& source, Place first, std::size_t begin,
                                         Score low, std::size_t& lowest, std::size_t& times) {
    const auto from = static_cast<std::size_t>(first);
    unsigned places = 0;
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kLowestGroup / kScores; ++i) {
      const std::size_t slot = from + i * kScores;
      const bool is_low = source[std::min(slot, begin - 1)] == low;
      places |= unsigned{slot < begin && is_low} << i;
    }
    lowest = std::min(lowest, from + std::countr_zero(places) * kScores);
    times += std::popcount(places);
  }

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
