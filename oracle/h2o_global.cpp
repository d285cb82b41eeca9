// H2O as in the authors' evaluation program for LLaMA: heavy hitters by the column sums of the
// whole attention matrix, later queries included. No cache can do that, so it is an oracle here and
// not a preset of h2o.

#include <limits>

#include "oracle/simulation.h"
#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

class SmallestColumn final : public EvictionRule {
 public:
  SmallestColumn(const std::vector<double>& sums, int recent) : sums_(sums), recent_(recent) {}

  void arrive(int) override {}

  double loss(int token, int step) override {
    const bool is_recent = token > step - recent_;
    return is_recent ? std::numeric_limits<double>::infinity() : sums_[token];
  }

 private:
  const std::vector<double>& sums_;
  int recent_;
};

class GlobalHeavyHitters final : public HeadPlanner {
 public:
  explicit GlobalHeavyHitters(const Params& params) : params_(params) {}

  std::vector<Plan> plan_head(const Future& head, std::span<const int> budgets) const override {
    const FutureAttention& attention = head.attention();
    std::vector<double> sums(attention.num_tokens(), 0);
    for (int step = 0; step < attention.num_tokens(); ++step) {
      const std::span<const float> row = attention.row(step);
      for (int token = 0; token <= step; ++token) sums[token] += row[token];
    }
    std::vector<Plan> plans;
    for (const int budget : budgets) {
      SmallestColumn rule(sums, params_.amount("recent", budget));
      plans.push_back({.schedule = simulate(attention, budget, rule)});
    }
    return plans;
  }

 private:
  Params params_;
};

}  // namespace

PolicyInfo h2o_global_oracle() {
  return {.name = "h2o-global",
          .keeps = "recent tokens and those with the most attention, that to come included",
          .source = "H2O's evaluation program for LLaMA",
          .sees = "the attention of the whole text",
          .differences =
              "no bound; the program masks a text at once and leaves the places of heavy hitters "
              "to come empty, here tokens leave one by one from a full cache: 58% of its sets at "
              "a ratio of 0.1",
          .params = {Param::amount("recent", "0.5", "newest tokens that always stay")},
          .make_planner = [](const Params& params) -> std::unique_ptr<Planner> {
            return std::make_unique<GlobalHeavyHitters>(params);
          },
          .plans_pages = always_plans_pages,
          .make = make_scheduled};
}

}  // namespace kvsim
