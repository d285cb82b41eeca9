#include "oracle/auction/least_prices.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/assignment/distance_queue.h"
#include "sim/base/interrupt.h"
#include "sim/kernels/candidate_kernels.h"

namespace kvsim {
namespace {

// More than the rounding of a double to float.
constexpr float kRoundedBy = 0x1p-22F;

/// How far the prices of each bidder's own tokens can fall: no further than that every other
/// bidder's fall and what the other would have to gain before it wants one of them. These are
/// shortest distances between bidders, from what stays, whose prices are fixed. Dijkstra's
/// algorithm.
class PriceFalls {
 public:
  PriceFalls(const Bidders& bidders, const Assignment& assignment)
      : bidders_(bidders),
        assignment_(assignment),
        level_(static_cast<std::size_t>(bidders.count()), 0),
        fall_(static_cast<std::size_t>(bidders.count()), kFar),
        nearest_(bidders.count()),
        own_(static_cast<std::size_t>(bidders.count())),
        wanted_from_(static_cast<std::size_t>(bidders.num_tokens())),
        found_(wanted_from_.size()),
        found_sums_(wanted_from_.size()) {
    for (int token = 0; token < bidders.num_tokens(); ++token) {
      const int bidder = assignment.bidder_of(token);
      own_[static_cast<std::size_t>(bidder)].push_back(token);
      double& level = level_[static_cast<std::size_t>(bidder)];
      level = std::max(level, double{bidders.cost(bidder, token)} + assignment.price(token));
    }
  }

  std::vector<double> prices() {
    for (int bidder = 0; bidder < bidders_.count(); ++bidder) limit(bidder, kFar);
    settle(bidders_.stay(), 0);
    while (nearest_.nearest() < kFar) {
      poll_interrupt();
      const double fall = nearest_.nearest();
      settle(nearest_.take(fall), fall);
    }
    std::vector<double> prices;
    prices.reserve(wanted_from_.size());
    const double base = level_.back();
    for (int token = 0; token < bidders_.num_tokens(); ++token) {
      const int bidder = assignment_.bidder_of(token);
      const double fall = fall_[static_cast<std::size_t>(bidder)];
      prices.push_back(
          bidder == bidders_.stay() ? 0 : std::max(0.0, assignment_.price(token) - base - fall));
    }
    return prices;
  }

 private:
  static constexpr double kFar = std::numeric_limits<double>::infinity();

  void settle(int bidder, double fall) {
    fall_[static_cast<std::size_t>(bidder)] = fall;
    limit(bidder, -kFar);
    const double level = level_[static_cast<std::size_t>(bidder)] - fall;
    const float most = static_cast<float>(level) * (1 + kRoundedBy);
    const std::span<const float> costs = bidders_.costs(bidder);
    const std::size_t found =
        find_at_most(costs, wanted_from_.data(), most, found_.data(), found_sums_.data());
    for (std::size_t i = 0; i < found; ++i) {
      const std::int32_t token = found_[i];
      const int owner = assignment_.bidder_of(token);
      const double gained = double{costs[static_cast<std::size_t>(token)]} +
                            assignment_.price(token) - level_[static_cast<std::size_t>(bidder)];
      const double of_owner = fall + std::max(0.0, gained);
      if (of_owner >= fall_[static_cast<std::size_t>(owner)]) continue;
      fall_[static_cast<std::size_t>(owner)] = of_owner;
      nearest_.lower(owner, of_owner);
      limit(owner, of_owner);
    }
  }

  /// Only sums of cost and wanted_from_ that are at most a bidder's level, less its fall, can lower
  /// the fall of the token's owner, which is `fall` now.
  void limit(int bidder, double fall) {
    for (const int token : own_[static_cast<std::size_t>(bidder)]) {
      const auto from = static_cast<float>(assignment_.price(token) - fall);
      wanted_from_[static_cast<std::size_t>(token)] =
          std::isinf(from) ? from : from - std::abs(from) * kRoundedBy;
    }
  }

  const Bidders& bidders_;
  const Assignment& assignment_;
  std::vector<double> level_;          // per bidder: the highest value of its tokens
  std::vector<double> fall_;           // per bidder: of the prices of its tokens
  DistanceQueue nearest_;              // bidders
  std::vector<std::vector<int>> own_;  // per bidder: its tokens
  std::vector<float> wanted_from_;     // per token
  std::vector<std::int32_t> found_;
  std::vector<float> found_sums_;
};

}  // namespace

std::vector<double> least_prices(const Bidders& bidders, const Assignment& assignment) {
  return PriceFalls(bidders, assignment).prices();
}

}  // namespace kvsim
