// Eviction by a threshold, without a budget, after a delay, as DMS decides (Lancucki, Staniszewski,
// Nawrot and Ponti, "Inference-Time Hyper-Scaling with KV Cache Compression", 2025, arXiv
// 2506.05345, section 3.1) with trained evictors, and DMSPress of kvpress with the scores of any
// policy.

#include <algorithm>
#include <limits>

#include "policies/interface/score_wrapper.h"

namespace kvsim {
namespace {

class Threshold final : public ScoreWrapper {
 public:
  Threshold(std::unique_ptr<Policy> inner, const Rules& rules, const Params& params,
            const Context& context)
      : ScoreWrapper(std::move(inner), rules, context.budget), below_(params.real("below")) {}

 private:
  // Some policies score at steps that evict alone. Each step may evict here.
  Step shown(const Step& step) const override {
    Step evicting = step;
    evicting.overflow = 1;
    return evicting;
  }

  void change(const Step&, std::span<const double> own, std::span<double> scores) override {
    for (std::size_t i = 0; i < own.size(); ++i) {
      scores[i] = own[i] < below_ ? -std::numeric_limits<double>::infinity() : own[i];
    }
  }

  double below_;
};

std::unique_ptr<Policy> wrap_threshold(std::unique_ptr<Policy> policy, const Rules& rules,
                                       const Params& params, const Context& context) {
  return std::make_unique<Threshold>(std::move(policy), rules, params, context);
}

void prune(Rules& rules, const Params& params, const Context&) {
  leave_rule(rules);
  rules.protect_newest = std::max(rules.protect_newest, params.integer("window"));
  rules.bounded = false;
  rules.prunes = true;
}

std::string why_not_threshold(const PolicyInfo& policy, const Rules& rules, const Params&) {
  std::string reason = why_no_scores(policy, rules);
  if (!reason.empty()) return reason;
  if (rules.prunes) return "it prunes by a rule of its own";
  if (rules.prompt_only || policy.needs_budget) {
    return "it scores what exceeds a budget, and there is none";
  }
  if (rules.joined == JoinedScores::mean_rank) {
    return "a rank does not say what falls below a threshold; join by mean or max";
  }
  if (rules.rest) return "+rest takes one token of a budget, and there is none";
  return "";
}

}  // namespace

CombinatorInfo threshold_combinator() {
  return {
      .name = "threshold",
      .does =
          "there is no budget: a token leaves once it is older than a window and its score is "
          "below a threshold",
      .source = "DMS (Lancucki et al. 2025, arXiv 2506.05345), section 3.1; DMSPress of kvpress",
      .differences =
          "DMS decides by evictors that are trained with the model, when a token arrives; here a "
          "score decides as soon as the token is older than the window, and at every later step. "
          "What is kept depends on the text: see peak_tokens and cache_bytes",
      .params = {Param::real("below", 0, -1e9, 1e9, "scores below this leave"),
                 Param::integer("window", 16, 0, 1'000'000, "newest tokens, which stay")},
      .change = prune,
      .why_not = why_not_threshold,
      .wrap = wrap_threshold};
}

}  // namespace kvsim
