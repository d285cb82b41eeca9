#include "oracle/auction/auction_plan.h"

#include <algorithm>

#include "oracle/auction/auction.h"
#include "oracle/auction/refinement.h"
#include "sim/base/interrupt.h"
#include "sim/kernels/candidate_kernels.h"

namespace kvsim {
namespace {

// In the scale of the costs. A first auction of merged bidders finds prices from which that of all
// bidders begins with a smaller epsilon. Smaller steps than the last one gain nothing: the
// refinement that follows is exact.
constexpr int kMerged = 16;
constexpr double kMergedEpsilons[] = {.01, .002, .0004};
constexpr double kEpsilons[] = {.0004, .00008, .000016};

void run_auction(const Bidders& bidders, std::span<const double> epsilons, Assignment& assignment,
                 CandidateLists& lists) {
  Auction auction(bidders, assignment, lists);
  for (const double epsilon : epsilons) auction.run(epsilon * bidders.scale());
}

std::vector<double> prices_of_merged(const Bidders& bidders) {
  Assignment assignment(bidders);
  CandidateLists lists(bidders, assignment);
  run_auction(bidders, kMergedEpsilons, assignment, lists);
  return assignment.prices();
}

/// What a bidder pays for its last token at least: its lowest value.
std::vector<double> bidder_prices(const Bidders& bidders, const Assignment& assignment) {
  std::vector<double> prices(static_cast<std::size_t>(bidders.count()));
  for (int bidder = 0; bidder < bidders.count(); ++bidder) {
    poll_interrupt();
    prices[static_cast<std::size_t>(bidder)] =
        lowest_sum(bidders.costs(bidder), assignment.prices().data());
  }
  return prices;
}

// The dual of the assignment, which is feasible at any prices: each bidder pays its lowest value
// for each unit.
double dual_bound(const Bidders& bidders, const Assignment& assignment,
                  const std::vector<double>& bidder_price) {
  double bound = 0;
  for (int bidder = 0; bidder < bidders.count(); ++bidder) {
    bound += bidders.units(bidder) * bidder_price[static_cast<std::size_t>(bidder)];
  }
  for (int token = 0; token < bidders.num_tokens(); ++token) bound -= assignment.price(token);
  return bound;
}

// Prices of steps, less that of what stays, never rise with the step, because costs do not. Their
// differences are those of slots.
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
                                          int most_corrections) {
  if (bidders.stay() == 0) return keep_all(steps);
  Assignment assignment(bidders, prices_of_merged(bidders.merged(kMerged)));
  CandidateLists lists(bidders, assignment);
  run_auction(bidders, kEpsilons, assignment, lists);
  Refinement refinement(bidders, assignment, lists);
  if (!refinement.run(static_cast<long>(most_corrections) * bidders.count())) return {};
  const std::vector<double> bidder_price = bidder_prices(bidders, assignment);
  CertifiedPlan plan;
  plan.loss = assignment.loss(bidders);
  plan.bound = std::clamp(dual_bound(bidders, assignment, bidder_price), 0.0, plan.loss);
  if (!is_proven(plan, bidders.total())) return {};
  for (int token = 0; token < bidders.num_tokens(); ++token) {
    plan.schedule.push_back(bidders.step(assignment.bidder_of(token)));
  }
  if (steps.protocol().evicts_every_step()) plan.slot_price = slot_prices(bidders, bidder_price);
  return plan;
}

}  // namespace kvsim
