#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "oracle/auction/takers.h"

namespace kvsim {

/// Tokens in ascending order, and what they cost one taker.
struct KnownCosts {
  std::span<const std::int32_t> tokens;
  std::span<const float> costs;
};

/// Finds the tokens that a taker values little, in its row of costs or, where these are in 16 bits,
/// among those that it values little by the costs rounded down. Takes up to 24 bytes per token.
class CostSearch {
 public:
  /// `takers` has to outlive the object.
  explicit CostSearch(const Takers& takers);

  /// Finds the tokens that the taker may take and whose costs plus prices [num_tokens], as floats,
  /// do not exceed the limit; returns their number. What is known of the taker's costs saves time.
  std::size_t find(int taker, const float* price, float limit, const KnownCosts& known);

  /// Of what was found last, in ascending order. The arrays may be changed.
  std::int32_t* tokens() { return tokens_.data(); }
  float* sums() { return sums_.data(); }
  /// The exact cost of a token that was found.
  float cost(std::int32_t token) const { return costs_[token]; }

 private:
  void find_costs(int step, std::size_t found, const KnownCosts& known);

  const Takers& takers_;
  const float* costs_ = nullptr;  // a row, of which at least those of the tokens found are valid
  std::vector<std::int32_t> tokens_;
  std::vector<float> sums_;
  std::optional<CompactRow> row_;
  std::vector<float> some_costs_;      // of a row
  std::vector<std::int32_t> unknown_;  // found, but not known
};

}  // namespace kvsim
