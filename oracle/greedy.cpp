// The greedy eviction of H2O (Definition 4.3): evicts the token whose removal reduces F(S) least,
// where F(S) is the sum over later steps of h(attention to S) with the concave h of Remark D.14.
// Each removal is the best one at its step; the sequence of removals need not be. Algorithm 3 is
// greedy too, but adds tokens to an empty set, and Theorem D.17 is about that.
//
// Algorithm 2 applies one h to the sum over all kept tokens, for which every increasing h makes the
// same decision; here h applies to each step. Remark D.14 names sqrt(z + 1) and log(z + 1); the
// root here is of z, so that h(0) = 0.

#include <algorithm>
#include <limits>

#include "oracle/concave.h"
#include "oracle/simulation.h"
#include "policies/interface/policy_info.h"
#include "sim/base/interrupt.h"

namespace kvsim {
namespace {

/// Per token: its attention from its own step on, 0 where it is not measured.
using Columns = std::vector<std::vector<float>>;

Columns columns_of(const FutureAttention& attention) {
  Columns columns(attention.num_tokens());
  for (int token = 0; token < attention.num_tokens(); ++token) {
    columns[token].reserve(attention.num_tokens() - token);
  }
  for (int step = 0; step < attention.num_tokens(); ++step) {
    poll_interrupt();
    const std::span<const float> row = attention.row(step);
    const bool is_measured = step >= attention.first_measured();
    for (int token = 0; token <= step; ++token) {
      columns[token].push_back(is_measured ? row[token] : 0);
    }
  }
  return columns;
}

class LeastMarginalLoss final : public EvictionRule {
 public:
  LeastMarginalLoss(const Columns& columns, Concave h)
      : h_(h),
        columns_(columns),
        kept_(columns.size(), 0),
        prepared_(columns.size(), prepare(h, 0)),
        cached_(columns.size(), {.after = -1, .loss = 0}) {}

  void arrive(int step) override { add(step, 1); }

  // F is submodular, so a removal only raises the losses of the other tokens. A loss computed
  // earlier in the same step is therefore a lower bound: it need not be computed again unless it is
  // below the least loss found since the last removal.
  double loss(int token, int step) override {
    CachedLoss& cached = cached_[token];
    if (cached.after == step && cached.loss >= least_) return cached.loss;
    const int next = step + 1;
    cached = {.after = step,
              .loss = total_loss(h_, kept_.data() + next, prepared_.data() + next,
                                 columns_[token].data() + (next - token),
                                 static_cast<int>(kept_.size()) - next)};
    least_ = std::min(least_, cached.loss);
    return cached.loss;
  }

  void leave(int token) override { add(token, -1); }

 private:
  struct CachedLoss {
    int after;  // the step
    double loss;
  };

  void add(int token, double sign) {
    least_ = std::numeric_limits<double>::infinity();
    const std::vector<float>& column = columns_[token];
    for (std::size_t i = 0; i < column.size(); ++i) {
      const std::size_t step = static_cast<std::size_t>(token) + i;
      kept_[step] += sign * column[i];
      prepared_[step] = prepare(h_, kept_[step]);
    }
  }

  Concave h_;
  const Columns& columns_;
  std::vector<double> kept_;        // per step: attention to the kept tokens
  std::vector<double> prepared_;    // per step: prepare() of that
  std::vector<CachedLoss> cached_;  // per token: its loss as last computed
  double least_ = std::numeric_limits<double>::infinity();  // of those since the cache changed
};

class Greedy final : public HeadPlanner {
 public:
  explicit Greedy(Concave h) : h_(h) {}

  std::vector<Plan> plan_head(const Future& head, std::span<const int> budgets) const override {
    const FutureAttention& attention = head.attention();
    const Columns columns = columns_of(attention);
    std::vector<Plan> plans;
    for (const int budget : budgets) {
      LeastMarginalLoss rule(columns, h_);
      plans.push_back({.schedule = simulate(attention, budget, rule)});
    }
    return plans;
  }

 private:
  Concave h_;
};

}  // namespace

PolicyInfo greedy_oracle() {
  return {.name = "greedy",
          .keeps = "what loses least at its moment, attention valued with diminishing returns",
          .source = "H2O Definition 4.3, Algorithm 3, Remark D.14",
          .sees = "the attention of the whole text",
          .differences =
              "no bound: the paper's guarantee (Theorem D.17) is for one set that Algorithm 3 "
              "builds by adding, not for a sequence of removals; each step to come has its own h, "
              "and sqrt is of z where the paper has z + 1",
          .params = {Param::choice("h", {"sqrt", "identity", "log1p"},
                                   "how a step values the attention that it keeps")},
          .make_planner = [](const Params& params) -> std::unique_ptr<Planner> {
            return std::make_unique<Greedy>(parse_concave(params.choice("h")));
          },
          .planning_cost = [](const Params&, const UnitSizes& unit,
                              std::int64_t) { return unit.tokens * unit.tokens * unit.steps / 10; },
          .make = make_scheduled};
}

}  // namespace kvsim
