#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "policies/interface/policy.h"

namespace kvsim {

/// The squared Euclidean distance of the keys in two slots: symmetric to the last bit.
double squared_distance(const ResidentVectors& keys, std::size_t a, std::size_t b);

/// Squared distances between the keys of resident tokens, each computed when it is first asked for
/// and kept while both tokens stay. Most of them outlive a step by far.
class PairDistances {
 public:
  /// Keeps the distances of at most this many tokens; of more, none.
  explicit PairDistances(std::size_t most_tokens) : most_tokens_(most_tokens) {}

  /// What it holds per pair of tokens.
  static constexpr std::size_t kBytesPerPair = sizeof(double);

  /// Has to be called before the distances of a step are asked for: they are those of the first
  /// `count` slots, which hold `tokens`, ascending.
  void begin_step(std::span<const std::int32_t> tokens, const ResidentVectors& keys,
                  std::size_t count);

  double operator()(std::size_t a, std::size_t b) {
    if (rows_of_slot_.empty()) return squared_distance(keys_, a, b);
    const std::size_t row = rows_of_slot_[a];
    const std::size_t column = rows_of_slot_[b];
    double& kept = kept_[row * num_rows_ + column];
    if (kept < 0) kept_[column * num_rows_ + row] = kept = squared_distance(keys_, a, b);
    return kept;
  }

 private:
  void grow(std::size_t num_rows);
  void forget(std::size_t row);

  std::size_t most_tokens_;
  std::size_t num_rows_ = 0;
  std::vector<double> kept_;               // [row, row]; negative: not computed yet
  std::vector<std::int32_t> holders_;      // per row, its token; kNobody: none
  std::vector<std::size_t> rows_of_slot_;  // of this step; empty: nothing is kept
  ResidentVectors keys_;
};

}  // namespace kvsim
