#include "oracle/auction/auction_plan.h"

#include <algorithm>

#include "oracle/auction/auction.h"
#include "oracle/auction/refinement.h"
#include "sim/base/interrupt.h"
#include "sim/kernels/candidate_kernels.h"

namespace kvsim {
namespace {

// In the scale of the costs. A first auction of merged takers finds prices from which that of all
// takers begins with a smaller epsilon. Smaller steps than the last one gain nothing: the
// refinement that follows is exact.
constexpr int kMerged = 16;
constexpr double kMergedEpsilons[] = {.01, .002, .0004};
constexpr double kEpsilons[] = {.0004, .00008, .000016};

void run_auction(const Takers& takers, std::span<const double> epsilons, Assignment& assignment,
                 CandidateLists& lists) {
  Auction auction(takers, assignment, lists);
  for (const double epsilon : epsilons) auction.run(epsilon * takers.scale());
}

std::vector<double> prices_of_merged(const Takers& takers) {
  Assignment assignment(takers);
  CandidateLists lists(takers, assignment);
  run_auction(takers, kMergedEpsilons, assignment, lists);
  return assignment.prices();
}

/// What a taker pays for its last token at least: its lowest value.
std::vector<double> taker_prices(const Takers& takers, const Assignment& assignment) {
  std::vector<double> prices(static_cast<std::size_t>(takers.count()));
  for (int taker = 0; taker < takers.count(); ++taker) {
    poll_interrupt();
    prices[static_cast<std::size_t>(taker)] =
        lowest_sum(takers.costs(taker), assignment.prices().data());
  }
  return prices;
}

// The dual of the assignment, which is feasible at any prices: each taker pays its lowest value for
// each unit.
double dual_bound(const Takers& takers, const Assignment& assignment,
                  const std::vector<double>& taker_price) {
  double bound = 0;
  for (int taker = 0; taker < takers.count(); ++taker) {
    bound += takers.units(taker) * taker_price[static_cast<std::size_t>(taker)];
  }
  for (int token = 0; token < takers.num_tokens(); ++token) bound -= assignment.price(token);
  return bound;
}

// Prices of steps, less that of what stays, never rise with the step, because costs do not. Their
// differences are those of slots.
std::vector<double> slot_prices(const Takers& takers, const std::vector<double>& taker_price) {
  std::vector<double> price(static_cast<std::size_t>(takers.num_tokens()), 0);
  for (int taker = 0; taker < takers.stay(); ++taker) {
    const auto place = static_cast<std::size_t>(taker);
    price[static_cast<std::size_t>(takers.step(taker))] =
        std::max(0.0, taker_price[place] - taker_price[place + 1]);
  }
  return price;
}

CertifiedPlan keep_all(const EvictionSteps& steps) {
  CertifiedPlan plan{.schedule = Schedule(steps.num_tokens(), steps.num_tokens())};
  if (steps.protocol().evicts_every_step()) plan.slot_price.assign(steps.num_tokens(), 0);
  return plan;
}

}  // namespace

std::optional<CertifiedPlan> auction_plan(const Takers& takers, const EvictionSteps& steps,
                                          int most_corrections) {
  if (takers.stay() == 0) return keep_all(steps);
  Assignment assignment(takers, prices_of_merged(takers.merged(kMerged)));
  CandidateLists lists(takers, assignment);
  run_auction(takers, kEpsilons, assignment, lists);
  Refinement refinement(takers, assignment, lists);
  if (!refinement.run(static_cast<long>(most_corrections) * takers.count())) return {};
  const std::vector<double> taker_price = taker_prices(takers, assignment);
  CertifiedPlan plan;
  plan.loss = assignment.loss(takers);
  plan.bound = std::clamp(dual_bound(takers, assignment, taker_price), 0.0, plan.loss);
  if (!is_proven(plan, takers.total())) return {};
  for (int token = 0; token < takers.num_tokens(); ++token) {
    plan.schedule.push_back(takers.step(assignment.taker_of(token)));
  }
  if (steps.protocol().evicts_every_step()) plan.slot_price = slot_prices(takers, taker_price);
  return plan;
}

}  // namespace kvsim
