// Reserves the first and the last part of the budget: the control that every comparison needs,
// since keeping the first and the newest tokens explains most differences between policies
// ("Protection is (nearly) all you need", arXiv 2605.18053).

#include <algorithm>

#include "policies/registry.h"

namespace kvsim {
namespace {

class Protected final : public Policy {
 public:
  Protected(std::unique_ptr<Policy> policy, const Params& params, const Context& context)
      : policy_(std::move(policy)),
        first_(params.amount("first", context.budget)),
        last_(params.amount("last", context.budget)) {}

  Rules rules() const override {
    Rules rules = policy_->rules();
    rules.protect_first = std::max(rules.protect_first, first_);
    rules.protect_newest = std::max(rules.protect_newest, last_);
    return rules;
  }

  void update(const Step& step, std::span<double> scores) override {
    policy_->update(step, scores);
  }

 private:
  std::unique_ptr<Policy> policy_;
  int first_;
  int last_;
};

}  // namespace

CombinatorInfo protect_combinator() {
  return {.name = "protect",
          .does = "the first and the newest tokens always stay",
          .source = "arXiv 2605.18053",
          .params = {Param::amount("first", "0.1", "first tokens of the text"),
                     Param::amount("last", "0.1", "newest tokens")},
          .wrap = wrap_policy<Protected>};
}

}  // namespace kvsim
