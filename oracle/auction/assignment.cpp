#include "oracle/auction/assignment.h"

namespace kvsim {

Assignment::Assignment(const Takers& takers, const std::vector<double>& prices)
    : taker_of_(takers.num_tokens(), kNobody),
      missing_(takers.count()),
      price_(takers.num_tokens(), 0),
      price_below_(takers.num_tokens(), 0) {
  for (int taker = 0; taker < takers.count(); ++taker) missing_[taker] = takers.units(taker);
  for (std::size_t token = 0; token < prices.size(); ++token) {
    raise(static_cast<int>(token), prices[token]);
  }
}

void Assignment::give(int token, int taker) {
  release(token);
  taker_of_[token] = taker;
  --missing_[taker];
}

void Assignment::release(int token) {
  if (taker_of_[token] == kNobody) return;
  ++missing_[taker_of_[token]];
  taker_of_[token] = kNobody;
}

void Assignment::raise(int token, double price) {
  price_[token] = price;
  price_below_[token] = static_cast<float>(price) * kRoundedBelow;
}

double Assignment::loss(const Takers& takers) const {
  double sum = 0;
  for (int token = 0; token < takers.num_tokens(); ++token) {
    sum += double{takers.cost(taker_of_[token], token)};
  }
  return sum;
}

}  // namespace kvsim
