#include "oracle/auction/auction_plan.h"

#include <algorithm>

#include "oracle/auction/auction.h"
#include "oracle/auction/least_prices.h"
#include "oracle/auction/refinement.h"
#include "sim/base/interrupt.h"
#include "sim/kernels/candidate_kernels.h"

namespace kvsim {
namespace {

// In the scale of the costs. A first auction of merged bidders finds prices from which that of all
// bidders begins with a smaller epsilon. Smaller steps than the last one gain nothing: the
// refinement that follows is exact.
constexpr int kMerged = 8;
constexpr double kMergedEpsilons[] = {.02, .004, .0008};
constexpr double kEpsilons[] = {.0004, .00004, .000004};

// The fewer tokens stay, the further prices have to rise, which is about as the number of tokens
// for each that stays: so much of it is the first epsilon, if that is more, and the next is so many
// times smaller.
constexpr double kFirstOfMerged = .001;
constexpr double kFirst = .00004;
constexpr double kFall = 5;

/// Returns whether it came to an end.
bool run_auction(const Bidders& bidders, double first, std::span<const double> epsilons,
                 const AuctionLimits& limits, Assignment& assignment, CandidateLists& lists) {
  const long most_taken = std::max(limits.taken * bidders.num_tokens(), limits.taken_at_least);
  Auction auction(bidders, assignment, lists, most_taken);
  const double tokens_each = bidders.num_tokens() / (1.0 + bidders.units(bidders.stay()));
  double start = first * tokens_each;
  while (start > epsilons[0]) {
    if (!auction.run(start * bidders.scale())) return false;
    start /= kFall;
  }
  for (const double epsilon : epsilons) {
    if (!auction.run(epsilon * bidders.scale())) return false;
  }
  return true;
}

// Bidders of more evictions than tokens stay would find other prices.
int merged_units(const Bidders& bidders) {
  return std::clamp(bidders.units(bidders.stay()) / 2, 1, kMerged);
}

/// Empty if the auction did not come to an end.
std::vector<double> prices_of_merged(const Bidders& bidders, const AuctionLimits& limits) {
  Assignment assignment(bidders);
  CandidateLists lists(bidders, assignment);
  if (!run_auction(bidders, kFirstOfMerged, kMergedEpsilons, limits, assignment, lists)) return {};
  return assignment.prices();
}

/// Empty if it was not found within the limits. Lists take most of the memory, and end here.
std::optional<Assignment> least_loss(const Bidders& bidders, const AuctionLimits& limits) {
  const std::vector<double> prices =
      prices_of_merged(bidders.merged(merged_units(bidders)), limits);
  if (prices.empty()) return {};
  Assignment assignment(bidders, prices);
  CandidateLists lists(bidders, assignment);
  if (!run_auction(bidders, kFirst, kEpsilons, limits, assignment, lists)) return {};
  Refinement refinement(bidders, assignment, lists);
  if (!refinement.run(limits.corrections * bidders.count())) return {};
  return assignment;
}

/// What a bidder pays for its last token at least: its lowest value.
std::vector<double> bidder_prices(const Bidders& bidders, const std::vector<double>& token_price) {
  std::vector<double> prices(static_cast<std::size_t>(bidders.count()));
  for (int bidder = 0; bidder < bidders.count(); ++bidder) {
    poll_interrupt();
    prices[static_cast<std::size_t>(bidder)] =
        lowest_sum(bidders.costs(bidder), token_price.data());
  }
  return prices;
}

// The dual of the assignment, which is feasible at any prices: each bidder pays its lowest value
// for each unit.
double dual_bound(const Bidders& bidders, const std::vector<double>& token_price,
                  const std::vector<double>& bidder_price) {
  double bound = 0;
  for (int bidder = 0; bidder < bidders.count(); ++bidder) {
    bound += bidders.units(bidder) * bidder_price[static_cast<std::size_t>(bidder)];
  }
  for (const double price : token_price) bound -= price;
  return bound;
}

// Prices of steps, of which what stays has none, never rise with the step, because costs do not.
// Their differences are those of slots.
std::vector<double> slot_prices(const Bidders& bidders, const std::vector<double>& bidder_price) {
  std::vector<double> price(static_cast<std::size_t>(bidders.num_tokens()), 0);
  for (int bidder = 0; bidder < bidders.stay(); ++bidder) {
    const auto place = static_cast<std::size_t>(bidder);
    price[static_cast<std::size_t>(bidders.step(bidder))] =
        std::max(0.0, bidder_price[place] - bidder_price[place + 1]);
  }
  return price;
}

CertifiedPlan keep_all(const EvictionSteps& steps) {
  CertifiedPlan plan{.schedule = Schedule(steps.num_tokens(), steps.num_tokens())};
  if (steps.protocol().evicts_every_step()) plan.slot_price.assign(steps.num_tokens(), 0);
  return plan;
}

}  // namespace

std::optional<CertifiedPlan> auction_plan(const Bidders& bidders, const EvictionSteps& steps,
                                          const AuctionLimits& limits) {
  if (bidders.stay() == 0) return keep_all(steps);
  const std::optional<Assignment> assignment = least_loss(bidders, limits);
  if (!assignment) return {};
  const bool has_slot_prices = steps.protocol().evicts_every_step();
  const std::vector<double> token_price =
      has_slot_prices ? least_prices(bidders, *assignment) : assignment->prices();
  const std::vector<double> bidder_price = bidder_prices(bidders, token_price);
  CertifiedPlan plan;
  plan.loss = assignment->loss(bidders);
  plan.bound = std::clamp(dual_bound(bidders, token_price, bidder_price), 0.0, plan.loss);
  if (!is_proven(plan, bidders.total())) return {};
  for (int token = 0; token < bidders.num_tokens(); ++token) {
    plan.schedule.push_back(bidders.step(assignment->bidder_of(token)));
  }
  if (has_slot_prices) plan.slot_price = slot_prices(bidders, bidder_price);
  return plan;
}

}  // namespace kvsim
