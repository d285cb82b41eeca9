#include "oracle/certificate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/assignment/remaining_sums.h"
#include "oracle/simulation.h"
#include "oracle/step_losses.h"
#include "policies/interface/policy_info.h"
#include "sim/base/interrupt.h"

namespace kvsim {
namespace {

constexpr int kPatience = 10;       // passes without progress after which steps are shortened
constexpr double kProgress = 5e-4;  // relative to the bound
constexpr double kShorter = 0.7;
constexpr double kMeanWeight = 0.1;  // of the newest subgradient in the running mean

/// The relaxed problem at given prices: each token stays for as long as what it saves exceeds the
/// prices.
struct Relaxation {
  double bound = 0;
  /// Per step that evicts: the budget less the tokens that stay after it. 0 for other steps, which
  /// the budget does not bind and whose slots are free.
  std::vector<double> free_slots;
};

Relaxation relax(const StepRows& losses, int budget, const std::vector<double>& price) {
  const int n = losses.num_tokens();
  const int first = losses.first_eviction();
  const std::vector<int> evictions = losses.num_evictions(budget);
  std::vector<double> gain(n, 0);
  std::vector<double> best(n, 0);
  std::vector<int> stays_until(n);
  for (int token = 0; token < n; ++token) stays_until[token] = std::max(token, first);
  Relaxation relaxation;
  for (int step = losses.first_measured(); step < n; ++step) {
    poll_interrupt();
    const std::span<const float> row = losses.row(step);
    relaxation.bound += row[step];
    if (step <= first) continue;
    const double paid = evictions[step - 1] > 0 ? price[step - 1] : 0;
    for (int token = 0; token < step; ++token) {
      gain[token] += row[token] - paid;
      if (gain[token] <= best[token]) continue;
      best[token] = gain[token];
      stays_until[token] = step;
    }
  }
  std::vector<int> change(n + 1, 0);
  for (int token = 0; token < n; ++token) {
    relaxation.bound += best[token];
    ++change[std::max(token, first)];
    --change[stays_until[token]];
  }
  relaxation.free_slots.assign(n, 0);
  int staying = 0;
  for (int step = first; step + 1 < n; ++step) {
    staying += change[step];
    if (evictions[step] == 0) continue;
    relaxation.bound += budget * price[step];
    relaxation.free_slots[step] = budget - staying;
  }
  return relaxation;
}

/// Evicts the token with the least worth: what it still saves less the prices that it still pays,
/// if it stays for the most profitable time.
class LeastWorth final : public EvictionRule {
 public:
  LeastWorth(const StepRows& losses, const std::vector<double>& price)
      : worth_(losses.num_tokens()) {
    std::vector<double> worth(losses.num_tokens(), 0);
    for (int step = losses.num_tokens() - 1; step >= losses.first_eviction(); --step) {
      poll_interrupt();
      if (step + 1 < losses.num_tokens()) {
        const std::span<const float> row = losses.row(step + 1);
        for (int token = 0; token <= step; ++token) {
          worth[token] = row[token] - price[step] + std::max(0.0, worth[token]);
        }
      }
      worth_[step].assign(worth.begin(), worth.begin() + step + 1);
    }
  }

  void arrive(int) override {}
  double loss(int token, int step) override { return worth_[step][token]; }

 private:
  std::vector<std::vector<float>> worth_;  // per step and token
};

/// What a schedule retains.
double retained(const StepRows& losses, const Schedule& schedule) {
  double sum = 0;
  for (int step = losses.first_measured(); step < losses.num_tokens(); ++step) {
    poll_interrupt();
    const std::span<const float> row = losses.row(step);
    for (int token = 0; token <= step; ++token) {
      sum += schedule[token] >= step ? row[token] : 0;
    }
  }
  return sum;
}

/// Per step: the remaining loss of the token at place `budget` in descending order, divided by
/// the number of later steps that evict. 0 for steps that do not.
std::vector<double> first_prices(const StepRows& losses, int budget) {
  const RemainingSums remaining(losses);
  const std::vector<int> evictions = losses.num_evictions(budget);
  std::vector<double> price(evictions.size(), 0);
  int num_later = 0;
  for (int step = losses.num_tokens() - 1; step >= 0; --step) {
    poll_interrupt();
    if (evictions[step] == 0) continue;
    ++num_later;
    if (step + 1 == losses.num_tokens()) continue;
    std::vector<float> row(remaining.row(step), remaining.row(step) + step + 1);
    std::nth_element(row.begin(), row.begin() + budget - 1, row.end(), std::greater<>());
    price[step] = row[budget - 1] / std::max(1.0, num_later - 1.0);
  }
  return price;
}

}  // namespace

double dual_bound(const StepRows& losses, int budget, const std::vector<double>& slot_price) {
  return relax(losses, budget, slot_price).bound;
}

// Subgradient descent with Polyak's step length: it lowers the prices of steps with free slots in
// the relaxed problem and raises those of steps with too few. Where plain subgradients oscillate,
// as on heads that look one period back, it follows a running mean of them (Camerini, Fratta and
// Maffioli 1975).
Certificate certify(const StepRows& losses, int budget, const CertificateLimits& limits) {
  Certificate best;
  best.bound = std::numeric_limits<double>::infinity();
  best.retained = -1;
  best.total = sum_of_measured(losses);
  std::vector<double> price = first_prices(losses, budget);
  std::vector<double> direction(price.size(), 0);
  std::vector<double> move(price.size());
  double weight = 1;
  double stretch = 1;
  int stalled = 0;
  for (best.passes = 1;; ++best.passes) {
    const Relaxation relaxation = relax(losses, budget, price);
    stalled = relaxation.bound < best.bound * (1 - kProgress) ? 0 : stalled + 1;
    if (relaxation.bound < best.bound || best.slot_price.empty()) {
      best.bound = relaxation.bound;
      best.slot_price = price;
      LeastWorth rule(losses, price);
      Schedule schedule = simulate(losses, budget, rule);
      const double sum = retained(losses, schedule);
      if (sum > best.retained) {
        best.retained = sum;
        best.schedule = std::move(schedule);
      }
    }
    const double gap = best.bound - best.retained;
    if (gap <= limits.gap * best.retained || best.passes >= limits.passes) break;
    if (stalled > kPatience) {
      stretch *= kShorter;
      weight = kMeanWeight;
      stalled = 0;
      price = best.slot_price;
      continue;
    }
    double square = 0;
    for (std::size_t step = 0; step < price.size(); ++step) {
      direction[step] += weight * (relaxation.free_slots[step] - direction[step]);
      move[step] = price[step] > 0 || direction[step] < 0 ? direction[step] : 0;
      square += move[step] * move[step];
    }
    if (square == 0) break;
    const double length = stretch * (relaxation.bound - best.retained) / square;
    for (std::size_t step = 0; step < price.size(); ++step) {
      price[step] = std::max(0.0, price[step] - length * move[step]);
    }
  }
  return best;
}

namespace {

class Certifier final : public HeadPlanner {
 public:
  explicit Certifier(const Params& params)
      : loss_(loss_of(params)), limits_{params.real("gap"), params.integer("passes")} {}

  std::vector<Plan> plan_head(const Future& head, std::span<const int> budgets) const override {
    const StepLosses losses(head, loss_);
    std::vector<Plan> plans;
    for (const int budget : budgets) {
      if (budget >= head.num_tokens()) {
        plans.push_back({.schedule = Schedule(head.num_tokens(), head.num_tokens()),
                         .proof = losses.proof(0, 0, true)});
        continue;
      }
      Certificate certificate = certify(losses.rows(), budget, limits_);
      plans.push_back({.schedule = std::move(certificate.schedule),
                       .slot_price = std::move(certificate.slot_price),
                       .proof = losses.proof(certificate.total - certificate.retained,
                                             certificate.total - certificate.bound, true)});
    }
    return plans;
  }

 private:
  Loss loss_;
  CertificateLimits limits_;
};

std::vector<Param> params() {
  std::vector<Param> params = {
      Param::real("gap", 0.01, 0, 1, "between bound and schedule, at which to stop"),
      Param::integer("passes", 300, 1, 1'000'000, "at most, over the losses")};
  for (Param& param : loss_params()) params.push_back(std::move(param));
  return params;
}

}  // namespace

PolicyInfo certificate_oracle() {
  return {.name = "certificate",
          .keeps = "nearly the best, with a proven bound on every policy",
          .source = "oracle/README.md (Lagrangian duality)",
          .sees = "the attention of the whole text; for other costs values, outputs and gradients",
          .differences = "its rows are no bound; the bound is in the table certificate",
          .params = params(),
          .make_planner = [](const Params& params) -> std::unique_ptr<Planner> {
            return std::make_unique<Certifier>(params);
          },
          .planning_cost = [](const Params&, const UnitSizes& unit,
                              std::int64_t) { return 50 * unit.pairs(); },
          .needs = loss_needs,
          .make = make_scheduled};
}

}  // namespace kvsim
