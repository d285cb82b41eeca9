// The robust greedy algorithm of H2O (Definition 4.3, Algorithm 3): the token goes whose removal
// costs the least of F(S), the sum over the steps to come of h(attention that falls on S), with the
// concave h of Remark D.14. Each removal is the best one at its moment, the sequence need not be.
//
// Algorithm 2 puts one h around the sum over everything that is kept, where every increasing h
// decides alike; here each step has its own. Remark D.14 names sqrt(z + 1) and log(z + 1); the root
// here is that of z, so that h(0) = 0.

#include <algorithm>
#include <limits>

#include "oracle/concave.h"
#include "oracle/simulation.h"
#include "policies/registry.h"

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
        known_(columns.size(), {.after = -1, .loss = 0}) {}

  void arrive(int step) override { add(step, 1); }

  // What leaves only raises what the others cost (F is submodular). So after the first removal of
  // a step most candidates need not be looked at again: they cost too much already.
  double loss(int token, int step) override {
    Known& known = known_[token];
    if (known.after == step && known.loss >= least_) return known.loss;
    const int next = step + 1;
    known = {.after = step,
             .loss = total_loss(h_, kept_.data() + next, prepared_.data() + next,
                                columns_[token].data() + (next - token),
                                static_cast<int>(kept_.size()) - next)};
    least_ = std::min(least_, known.loss);
    return known.loss;
  }

  void leave(int token) override { add(token, -1); }

 private:
  struct Known {
    int after;  // this step
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
  std::vector<double> kept_;      // per step: attention that falls on what is kept
  std::vector<double> prepared_;  // per step: prepare() of that
  std::vector<Known> known_;      // per token: its loss when it was last computed
  double least_ = std::numeric_limits<double>::infinity();  // computed since the cache changed
};

class Greedy final : public Planner {
 public:
  explicit Greedy(Concave h) : h_(h) {}

  std::vector<Plan> plan(const FutureAttention& attention,
                         std::span<const int> budgets) const override {
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
  return {
      .name = "greedy",
      .keeps = "what loses least at its moment, attention valued with diminishing returns",
      .source = "H2O Definition 4.3, Algorithm 3, Remark D.14",
      .sees = "the attention of the whole text",
      .differences =
          "no bound: the paper's guarantee is for one set, not for a sequence; each step to come "
          "has its own h, and sqrt is of z where the paper has z + 1",
      .params = {Param::choice("h", {"sqrt", "identity", "log1p"},
                               "how a step values the attention that it keeps")},
      .make_planner = [](const Params& params) -> std::unique_ptr<Planner> {
        return std::make_unique<Greedy>(parse_concave(params.choice("h")));
      },
      .make = make_scheduled};
}

}  // namespace kvsim
