#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "policies/interface/policy.h"

namespace kvsim {

/// Squared Euclidean distances between the keys of resident tokens, identical to the last bit in
/// both directions and on every processor. A token has a row while it stays, and so have its
/// distances: most of them outlive a step by far.
class PairDistances {
 public:
  /// Keeps the distances of at most this many tokens; of more, none.
  explicit PairDistances(std::size_t most_tokens) : most_tokens_(most_tokens) {}

  /// What it holds per pair of tokens.
  static constexpr std::size_t kBytesPerPair = sizeof(double);

  static constexpr std::int32_t kNobody = -1;

  /// Has to be called before anything else is asked for at a step: it is about the first `count`
  /// slots, which hold `tokens`, ascending. Returns those of them that the step before did not
  /// have, ascending.
  std::vector<std::int32_t> begin_step(std::span<const std::int32_t> tokens,
                                       const ResidentVectors& keys, std::size_t count);

  /// Whether the step has this token.
  bool has(std::int32_t token) const {
    const std::size_t place = place_of(token);
    return place < row_of_token_.size() && row_of_token_[place] != kNoRow;
  }

  // Of a token that the step has, and of its row.

  std::size_t row_of(std::int32_t token) const { return row_of_token_[place_of(token)]; }
  std::size_t slot_of(std::int32_t token) const { return slots_[row_of(token)]; }
  const float* key(std::size_t row) const { return keys_[row]; }

  /// Per row, its token; kNobody: none.
  std::span<const std::int32_t> tokens() const { return tokens_; }

  /// Whether distances are kept.
  bool are_kept() const { return !kept_.empty(); }

  /// The kept distances of a row to all rows; any number to rows without a token.
  std::span<const double> of_row(std::size_t row) const {
    return {kept_.data() + row * tokens_.size(), tokens_.size()};
  }

  /// The distance of two rows, kept or computed.
  double of(std::size_t row, std::size_t other) const {
    if (are_kept()) return of_row(row)[other];
    double distance = 0;
    to_keys(row, {&keys_[other], 1}, &distance);
    return distance;
  }

  /// The distances of a row to these keys, computed.
  void to_keys(std::size_t row, std::span<const float* const> keys, double* distances) const;

 private:
  static constexpr auto kNoRow = static_cast<std::size_t>(-1);

  static std::size_t place_of(std::int32_t token) { return static_cast<std::size_t>(token); }

  std::vector<std::int32_t> replace(std::span<const std::int32_t> held);
  void seat(std::span<const std::int32_t> tokens);
  void keep_row(std::size_t row);

  std::size_t most_tokens_;
  std::size_t dim_ = 0;                    // of a key
  std::vector<std::int32_t> tokens_;       // per row
  std::vector<std::size_t> slots_;         // per row with a token, of this step
  std::vector<const float*> keys_;         // per row, of this step; of another one without a token
  std::vector<std::size_t> row_of_token_;  // per token of the text so far; kNoRow: it has none
  std::vector<double> kept_;               // [row, row]; empty: none are kept
};

}  // namespace kvsim
