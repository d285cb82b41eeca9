// Top-K attention: keeps every token; each step attends only to the tokens with its highest full
// attention (H2O section C.5, Table 8). Without heavy hitters its attention recall is an upper
// bound for every policy that evicts.

#include "policies/heavy_hitters.h"

namespace kvsim {
namespace {

class TopK final : public Policy {
 public:
  TopK(const Params& params, const Context& context) : heavy_hitters_(params, context) {}

  Rules rules() const override {
    Rules rules{.bounded = false, .sees_full_attention = true, .selects = true};
    if (!heavy_hitters_.is_enabled()) rules.score = ScoreRule{ScoreRule::Kind::attention};
    return rules;
  }

  void update(const Step& step, std::span<double> scores) override {
    std::copy(step.full_attention.begin(), step.full_attention.end(), scores.begin());
    // Heavy hitters by the attention of earlier steps, which is known before this step attends.
    heavy_hitters_.prefer(step.tokens.first(step.tokens.size() - 1), scores);
    heavy_hitters_.add(step.tokens, step.full_attention);
  }

 private:
  HeavyHitterShare heavy_hitters_;
};

}  // namespace

PolicyInfo topk_policy() {
  return {.name = "topk",
          .keeps = "everything, and attends to the tokens that the step attends to most",
          .source = "H2O section C.5, Table 8",
          .sees = "attention over the whole text, before the step attends",
          .differences = "the paper does not say how heavy hitters and Top-K share the budget",
          .params = {HeavyHitterShare::param()},
          .bounds_recall = [](const Params& params) { return params.real("h2") == 0; },
          .make = make_policy<TopK>};
}

}  // namespace kvsim
