#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace kvsim {

/// A priority queue of different numbers below a limit: one bit each, and two levels of bits that
/// say which words of the level below have one. Takes a bit per number, and time that does not
/// depend on how many are in it.
template <class Number>
class AscendingSet {
 public:
  static constexpr Number kNone = std::numeric_limits<Number>::max();

  explicit AscendingSet(std::size_t limit)
      : numbers_(limit / 64 + 1), words_(limit / 64 / 64 + 1), groups_(limit / 64 / 64 / 64 + 1) {}

  /// kNone if it is empty.
  Number least() const { return least_; }

  void add(Number number) {
    set(numbers_, number);
    set(words_, number >> 6);
    set(groups_, number >> 12);
    if (number < least_) least_ = number;
  }

  /// Removes the least number, which has to be there.
  Number take() {
    const Number taken = least_;
    std::size_t word = taken >> 6;
    if ((numbers_[word] &= numbers_[word] - 1) == 0) {
      word = next_word(word);
      if (word == numbers_.size()) {
        least_ = kNone;
        return taken;
      }
    }
    least_ = static_cast<Number>(word << 6 | lowest(numbers_[word]));
    return taken;
  }

 private:
  using Words = std::vector<std::uint64_t>;

  static void set(Words& words, std::size_t bit) {
    words[bit >> 6] |= std::uint64_t{1} << (bit & 63);
  }
  static std::size_t lowest(std::uint64_t word) {
    return static_cast<std::size_t>(std::countr_zero(word));
  }

  /// Removes the first word that has numbers and returns the next; numbers_.size(): none.
  std::size_t next_word(std::size_t word) {
    std::size_t group = word >> 6;
    if ((words_[group] &= words_[group] - 1) == 0) {
      std::size_t i = group >> 6;
      groups_[i] &= groups_[i] - 1;
      while (i < groups_.size() && groups_[i] == 0) ++i;
      if (i == groups_.size()) return numbers_.size();
      group = i << 6 | lowest(groups_[i]);
    }
    return group << 6 | lowest(words_[group]);
  }

  Words numbers_;
  Words words_;   // which words of numbers_ are not 0
  Words groups_;  // which words of words_ are not 0
  Number least_ = kNone;
};

}  // namespace kvsim
