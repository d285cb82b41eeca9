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

#include "oracle/attention_columns.h"
#include "oracle/concave.h"
#include "oracle/loss_bounds.h"
#include "oracle/simulation.h"
#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

class LeastMarginalLoss final : public EvictionRule {
 public:
  LeastMarginalLoss(const AttentionColumns& columns, Concave h)
      : h_(h),
        columns_(columns),
        kept_(columns.num_tokens(), 0),
        prepared_(columns.num_tokens(), prepare(h, 0)),
        bounds_(h, columns, kept_, prepared_) {}

  void arrive(int step) override {
    change(step, 1);
    bounds_.add(step);
    found_for_ = -1;
  }

  // Computes the losses of the tokens whose bounds do not exceed the least one. Of any other it
  // returns the bound, which is not the least.
  double loss(int token, int step) override {
    if (is_changed_) begin_search(step);
    const double bound = bounds_.of(token);
    return bound > least_ ? bound : compute(token, step);
  }

  void leave(int token) override {
    change(token, -1);
    bounds_.remove(token);
  }

 private:
  // Losses of one step, after which new bounds, of what is kept now, save more than they take.
  static constexpr int kMostComputed = 16;

  void begin_search(int step) {
    is_changed_ = false;
    if (found_for_ != step || computed_ >= kMostComputed) {
      bounds_.find(step);
      found_for_ = step;
      computed_ = 0;
    }
    least_ = std::numeric_limits<double>::infinity();
    compute(bounds_.lowest(), step);
  }

  double compute(int token, int step) {
    const int next = step + 1;
    const double loss = total_loss(h_, kept_.data() + next, prepared_.data() + next,
                                   columns_.from(token, next), columns_.num_tokens() - next);
    ++computed_;
    bounds_.raise(token, loss);
    least_ = std::min(least_, loss);
    return loss;
  }

  void change(int token, double sign) {
    is_changed_ = true;
    const float* column = columns_.from(token, token);
    for (int step = token; step < columns_.num_tokens(); ++step) {
      kept_[step] += sign * column[step - token];
      prepared_[step] = prepare(h_, kept_[step]);
    }
  }

  Concave h_;
  const AttentionColumns& columns_;
  std::vector<double> kept_;      // per step: attention to the kept tokens
  std::vector<double> prepared_;  // per step: prepare() of that
  LossBounds bounds_;
  bool is_changed_ = true;  // since the last search
  int found_for_ = -1;      // the step of the bounds
  int computed_ = 0;        // losses since then
  double least_ = 0;        // of the losses of this search
};

class Greedy final : public HeadPlanner {
 public:
  explicit Greedy(Concave h) : h_(h) {}

  std::vector<Plan> plan_head(const Future& head, std::span<const int> budgets) const override {
    const FutureAttention& attention = head.attention();
    const AttentionColumns columns(attention);
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
          .planning_cost =
              [](const Params&, const UnitSizes& unit, std::int64_t) {
                return unit.tokens * unit.tokens * (9 + unit.steps / 400);
              },
          .make = make_scheduled};
}

}  // namespace kvsim
