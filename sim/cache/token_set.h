#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace kvsim {

/// A set of tokens of a text, one bit per token.
class TokenSet {
 public:
  TokenSet() = default;
  explicit TokenSet(int num_tokens) : words_((num_tokens + 63) / 64, 0) {}

  void insert(std::int32_t token) { words_[token >> 6] |= bit(token); }
  void erase(std::int32_t token) { words_[token >> 6] &= ~bit(token); }
  bool contains(std::int32_t token) const { return (words_[token >> 6] & bit(token)) != 0; }

  /// Inserts the tokens begin .. end - 1.
  void insert_range(std::int32_t begin, std::int32_t end) {
    for (std::int32_t token = begin; token < end; ++token) insert(token);
  }

  /// The tokens below `end` that are not in this set.
  TokenSet complement(std::int32_t end) const {
    TokenSet result = *this;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const auto first = static_cast<std::int32_t>(64 * i);
      std::uint64_t within = ~std::uint64_t{0};
      if (end < first + 64) within = end <= first ? 0 : bit(end) - 1;
      result.words_[i] = ~words_[i] & within;
    }
    return result;
  }

  /// The tokens both in this set and in `other`, a set of the same text.
  TokenSet intersection(const TokenSet& other) const {
    TokenSet result = *this;
    for (std::size_t i = 0; i < words_.size(); ++i) result.words_[i] &= other.words_[i];
    return result;
  }

  /// Erases the tokens of `other`, a set of the same text.
  void erase(const TokenSet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= ~other.words_[i];
  }

  const std::vector<std::uint64_t>& words() const { return words_; }

 private:
  static std::uint64_t bit(std::int32_t token) { return std::uint64_t{1} << (token & 63); }

  std::vector<std::uint64_t> words_;
};

/// Calls visit(token) for each set bit of `word`, ascending; bit 0 is `first_token`.
template <class Visit>
void for_each_token(std::uint64_t word, std::int32_t first_token, Visit visit) {
  for (; word != 0; word &= word - 1) visit(first_token + std::countr_zero(word));
}

/// Calls visit(token) for each token below `end` that is in `set` (or is not, if !held), ascending.
template <class Visit>
void for_each_token_of(const TokenSet& set, std::int32_t end, bool held, Visit visit) {
  for (std::int32_t first = 0; first < end; first += 64) {
    std::uint64_t word = held ? set.words()[first >> 6] : ~set.words()[first >> 6];
    if (end - first < 64) word &= (std::uint64_t{1} << (end - first)) - 1;
    for_each_token(word, first, visit);
  }
}

using TokenWords = std::span<const std::uint64_t>;

/// The number of tokens in both sets, and in just one of them. Compares as many words as the
/// shorter one has.
int count_common(TokenWords a, TokenWords b);
int count_different(TokenWords a, TokenWords b);

}  // namespace kvsim
