#include "oracle/auction/assignment.h"

namespace kvsim {

Assignment::Assignment(const Bidders& bidders, const std::vector<double>& prices)
    : bidder_of_(bidders.num_tokens(), kNobody),
      missing_(bidders.count()),
      price_(bidders.num_tokens(), 0),
      price_below_(bidders.num_tokens(), 0) {
  for (int bidder = 0; bidder < bidders.count(); ++bidder) missing_[bidder] = bidders.units(bidder);
  for (std::size_t token = 0; token < prices.size(); ++token) {
    raise(static_cast<int>(token), prices[token]);
  }
}

void Assignment::give(int token, int bidder) {
  release(token);
  bidder_of_[token] = bidder;
  --missing_[bidder];
}

void Assignment::release(int token) {
  if (bidder_of_[token] == kNobody) return;
  ++missing_[bidder_of_[token]];
  bidder_of_[token] = kNobody;
}

void Assignment::raise(int token, double price) {
  price_[token] = price;
  price_below_[token] = static_cast<float>(price) * kRoundedBelow;
}

double Assignment::loss(const Bidders& bidders) const {
  double sum = 0;
  for (int token = 0; token < bidders.num_tokens(); ++token) {
    sum += double{bidders.cost(bidder_of_[token], token)};
  }
  return sum;
}

}  // namespace kvsim
