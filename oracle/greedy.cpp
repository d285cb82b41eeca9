// The robust greedy algorithm of H2O (Definition 4.3, Algorithm 3): the token goes whose removal
// costs the least of F(S), the sum over the steps to come of h(attention that falls on S), with the
// concave h of Remark D.14. Each removal is the best one at its moment, the sequence need not be.

#include "oracle/concave.h"
#include "oracle/simulation.h"
#include "policies/registry.h"

namespace kvsim {
namespace {

class LeastMarginalLoss final : public EvictionRule {
 public:
  LeastMarginalLoss(const FutureAttention& attention, Concave h)
      : num_tokens_(attention.num_tokens()), h_(h), kept_(attention.num_tokens(), 0) {
    columns_.resize(num_tokens_);
    for (int token = 0; token < num_tokens_; ++token) columns_[token].reserve(num_tokens_ - token);
    for (int step = 0; step < num_tokens_; ++step) {
      const std::span<const float> row = attention.row(step);
      const bool is_measured = step >= attention.first_measured();
      for (int token = 0; token <= step; ++token) {
        columns_[token].push_back(is_measured ? row[token] : 0);
      }
    }
  }

  void arrive(int step) override { add(step, 1); }

  double loss(int token, int step) override {
    const int next = step + 1;
    return total_loss(h_, kept_.data() + next, columns_[token].data() + (next - token),
                      num_tokens_ - next);
  }

  void leave(int token) override { add(token, -1); }

 private:
  void add(int token, float sign) {
    for (int step = token; step < num_tokens_; ++step) {
      kept_[step] += sign * columns_[token][step - token];
    }
  }

  int num_tokens_;
  Concave h_;
  std::vector<float> kept_;                  // per step: attention that falls on what is kept
  std::vector<std::vector<float>> columns_;  // per token: its attention from its own step on
};

class Greedy final : public Planner {
 public:
  explicit Greedy(Concave h) : h_(h) {}

  std::vector<Plan> plan(const FutureAttention& attention,
                         std::span<const int> budgets) const override {
    std::vector<Plan> plans;
    for (const int budget : budgets) {
      LeastMarginalLoss rule(attention, h_);
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
          .differences = "no bound: the paper's guarantee is for one set, not for a sequence",
          .params = {Param::choice("h", {"sqrt", "identity", "log1p"},
                                   "how a step values the attention that it keeps")},
          .make_planner = [](const Params& params) -> std::unique_ptr<Planner> {
            return std::make_unique<Greedy>(parse_concave(params.choice("h")));
          },
          .make = make_scheduled};
}

}  // namespace kvsim
