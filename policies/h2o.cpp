// H2O, the heavy-hitter oracle (Zhang et al., NeurIPS 2023): Algorithm 2 with the accumulated score
// of Remark D.15, the budget shared with a recent window as in section 5.
//
// Algorithm 1 read literally scores the new token 0 and so keeps the first B tokens for good; the
// paper's experiments accumulate, as this does. Of the authors' programs this is nearest to the
// real-drop one: softmax over the retained set, sums, no off-by-one at the window's edge.

#include "policies/registry.h"

namespace kvsim {
namespace {

class HeavyHitters final : public Policy {
 public:
  HeavyHitters(const Params& params, const Context& context)
      : recent_(params.amount("recent", context.budget)),
        full_(params.choice("score") == "full"),
        mean_(params.choice("score") == "mean") {}

  Rules rules() const override { return {.protect_newest = recent_, .sees_full_attention = full_}; }

  void update(const Step& step, std::span<double> scores) override {
    const auto attention = full_ ? step.full_attention : step.attention;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (mean_) {
        scores[i] += (attention[i] - scores[i]) / (step.index - step.tokens[i] + 1);
      } else {
        scores[i] += attention[i];
      }
    }
  }

 private:
  int recent_;
  bool full_;
  bool mean_;
};

}  // namespace

PolicyInfo h2o_policy() {
  return {
      .name = "h2o",
      .keeps = "recent tokens and those with the most accumulated attention",
      .source = "H2O Algorithm 2, Remark D.15, section 5",
      .sees = "attention over the cache; score=full: over the whole text",
      .differences = "the authors' programs differ among themselves in softmax and budget split",
      .params = {Param::amount("recent", "0.5",
                               "newest tokens that always stay; 0 is Algorithm 2 alone"),
                 Param::choice("score", {"sum", "mean", "full"},
                               "sum since arrival, mean per step seen (B.2), or the sum of full "
                               "attention")},
      .make = make_policy<HeavyHitters>};
}

}  // namespace kvsim
