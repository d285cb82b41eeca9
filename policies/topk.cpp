// Top-K attention: every token stays, each step attends to those it attends to most (H2O section
// C.5, Table 8). Without heavy hitters it bounds the attention recall of every policy that evicts.

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "policies/registry.h"

namespace kvsim {
namespace {

class TopK final : public Policy {
 public:
  TopK(const Params& params, const Context& context)
      : num_heavy_(static_cast<std::size_t>(params.real("h2") * context.budget + 0.5)) {}

  Rules rules() const override {
    return {.bounded = false, .sees_full_attention = true, .selects = true};
  }

  void update(const Step& step, std::span<double> scores) override {
    std::copy(step.full_attention.begin(), step.full_attention.end(), scores.begin());
    if (num_heavy_ == 0) return;
    prefer_heavy_hitters(scores);
    accumulated_.resize(scores.size(), 0);
    for (std::size_t i = 0; i < scores.size(); ++i) accumulated_[i] += step.full_attention[i];
  }

 private:
  // Those with the most attention up to the step before, which the selection can know.
  void prefer_heavy_hitters(std::span<double> scores) const {
    std::vector<std::size_t> tokens(accumulated_.size());
    std::iota(tokens.begin(), tokens.end(), std::size_t{0});
    const std::size_t count = std::min(num_heavy_, tokens.size());
    std::partial_sort(
        tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count), tokens.end(),
        [&](std::size_t a, std::size_t b) {
          return accumulated_[a] != accumulated_[b] ? accumulated_[a] > accumulated_[b] : a > b;
        });
    for (std::size_t i = 0; i < count; ++i) {
      scores[tokens[i]] = std::numeric_limits<double>::infinity();
    }
  }

  std::size_t num_heavy_;
  std::vector<double> accumulated_;  // per token, as every token stays
};

}  // namespace

PolicyInfo topk_policy() {
  return {.name = "topk",
          .keeps = "everything, and attends to the tokens that the step attends to most",
          .source = "H2O section C.5, Table 8",
          .sees = "attention over the whole text, before the step attends",
          .differences = "the paper does not say how heavy hitters and Top-K share the budget",
          .params = {Param::real("h2", 0, 0, 1,
                                 "share of the budget for heavy hitters; 0.5 is the paper's "
                                 "combination")},
          .make = make_policy<TopK>};
}

}  // namespace kvsim
