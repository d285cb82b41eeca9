// VATP, value-aware token pruning (Guo, Kamigaito and Watanabe, "Attention Score is Not All You
// Need for Token Importance Indicator in KV Cache Reduction: Value Also Matters", EMNLP 2024): a
// token counts by the attention it received times the L1 norm of its value, because both decide
// what it adds to an output. The first tokens have much attention and short values; they stay.

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "policies/interface/policy_info.h"
#include "policies/parts/recent_attention.h"

namespace kvsim {
namespace {

class ValueAwarePruning final : public Policy {
 public:
  ValueAwarePruning(const Params& params, const Context& context)
      : recent_(params.amount("recent", context.budget)),
        sinks_(std::min(params.integer("sinks"), std::max(0, context.budget - recent_))),
        history_(params.integer("history")) {
    if (history_ > 0) last_steps_.emplace(history_);
  }

  Rules rules() const override {
    return {.protect_first = sinks_,
            .protect_newest = recent_,
            .sees_values = true,
            .remembered = {history_, RecentAttention::kBytesPerToken}};
  }

  void update(const Step& step, std::span<double> scores) override {
    lengths_.resize(static_cast<std::size_t>(step.index) + 1);
    lengths_.back() = l1_norm(step.values[scores.size() - 1]);
    if (last_steps_) last_steps_->add(step.tokens, step.attention);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const std::int32_t token = step.tokens[i];
      const double length = lengths_[static_cast<std::size_t>(token)];
      if (last_steps_) {
        scores[i] = last_steps_->of(token) * length;
      } else {
        scores[i] += step.attention[i] * length;
      }
    }
  }

 private:
  static double l1_norm(std::span<const float> value) {
    double sum = 0;
    for (const float x : value) sum += std::abs(x);
    return sum;
  }

  int recent_;
  int sinks_;
  int history_;
  std::optional<RecentAttention> last_steps_;  // none: all steps count
  std::vector<double> lengths_;                // L1 norms of the values, by text position
};

}  // namespace

PolicyInfo vatp_policy() {
  return {
      .name = "vatp",
      .keeps = "the first and recent tokens and those with the most attention times value norm",
      .source = "Guo et al., EMNLP 2024 (VATP)",
      .sees = "attention over the cache, values",
      .differences =
          "the paper has a cache for each query head; here a KV head has one, and attention is the "
          "mean over its query heads. Where the budget has no room for both the sinks and the "
          "recent tokens, the recent tokens stay",
      .params = {Param::amount("recent", "0.5", "newest tokens that always stay"),
                 Param::integer("sinks", 20, 0, 1'000'000, "first tokens that always stay"),
                 Param::integer("history", 0, 0, 1'000'000,
                                "last steps whose attention counts, as in Scissorhands; 0: all "
                                "steps since arrival, as in H2O")},
      .presets =
          {{"h2o", "",
            "H2O with VATP, the authors' program with --h2o --apval --sink_len 20 and --mode "
            "prefill; n = heavy_ratio * prompt rounded down is a budget of 2n: 100% of its "
            "sets"},
           {"scissorhands", "recent=10,history=400",
            "Scissorhands with VATP, the authors' program with --apval --sink_len 20 and --mode "
            "prefill; n = heavy_ratio * prompt rounded down is a budget of 2n: 100% of its sets at "
            "the end of the prompt. Later it counts each step 400 times as much as one of the "
            "prompt, and forgets none: 2% of its sets"}},
      .make = make_policy<ValueAwarePruning>};
}

}  // namespace kvsim
