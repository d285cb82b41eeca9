#pragma once

#include <vector>

#include "oracle/auction/bidders.h"

namespace kvsim {

/// Times a float that was rounded to nearest, what was rounded is not exceeded.
inline constexpr float kRoundedBelow = 1 - 0x1p-22F;

/// Which bidder has each token, and the prices of tokens, which only rise.
class Assignment {
 public:
  static constexpr int kNobody = -1;

  /// Nobody has a token. `prices`: of each token; empty: 0.
  explicit Assignment(const Bidders& bidders, const std::vector<double>& prices = {});

  int bidder_of(int token) const { return bidder_of_[token]; }
  /// The same of all tokens.
  const int* bidders() const { return bidder_of_.data(); }
  /// How many tokens a bidder lacks of its units.
  int missing(int bidder) const { return missing_[bidder]; }

  /// Takes the token from whoever has it.
  void give(int token, int bidder);
  void release(int token);

  double price(int token) const { return price_[token]; }
  void raise(int token, double price);

  const std::vector<double>& prices() const { return price_; }

  /// At most the prices, by one rounding or two.
  const float* prices_below() const { return price_below_.data(); }

  /// The sum of the costs of evicted tokens.
  double loss(const Bidders& bidders) const;

 private:
  std::vector<int> bidder_of_;
  std::vector<int> missing_;
  std::vector<double> price_;
  std::vector<float> price_below_;
};

}  // namespace kvsim
