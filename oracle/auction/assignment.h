#pragma once

#include <vector>

#include "oracle/auction/takers.h"

namespace kvsim {

/// Times a float that was rounded to nearest, what was rounded is not exceeded.
inline constexpr float kRoundedBelow = 1 - 0x1p-22F;

/// Which taker has each token, and the prices of tokens, which only rise.
class Assignment {
 public:
  static constexpr int kNobody = -1;

  /// Nobody has a token. `prices`: of each token; empty: 0.
  explicit Assignment(const Takers& takers, const std::vector<double>& prices = {});

  int taker_of(int token) const { return taker_of_[token]; }
  /// How many tokens a taker lacks of its units.
  int missing(int taker) const { return missing_[taker]; }

  /// Takes the token from whoever has it.
  void give(int token, int taker);
  void release(int token);

  double price(int token) const { return price_[token]; }
  void raise(int token, double price);

  const std::vector<double>& prices() const { return price_; }

  /// At most the prices, by one rounding or two.
  const float* prices_below() const { return price_below_.data(); }

  /// The sum of the costs of evicted tokens.
  double loss(const Takers& takers) const;

 private:
  std::vector<int> taker_of_;
  std::vector<int> missing_;
  std::vector<double> price_;
  std::vector<float> price_below_;
};

}  // namespace kvsim
