// H2O, the heavy-hitter oracle (Zhang et al., NeurIPS 2023): Algorithm 2 with the accumulated score
// of Remark D.15; the budget is shared with a recent window as in section 5.
//
// Algorithm 1 read literally gives a new token the score 0 and therefore keeps the first B tokens
// forever. The paper's experiments accumulate attention, and so does this file. The authors
// published six programs, which differ in the parameters below; the defaults are closest to the
// real-drop program.
//
// keep=light is the experiment of section 3.2 and Figure 2c, the model without its heavy hitters:
// scores are negated, so that every other parameter means what it means for heavy hitters.

#include <algorithm>
#include <limits>

#include "policies/h2o_presets.h"
#include "policies/interface/policy_info.h"
#include "policies/parts/half.h"

namespace kvsim {
namespace {

/// The score of a token that is no longer a heavy hitter (overlap=yes).
constexpr double kNotHeavy = -std::numeric_limits<double>::infinity();

class HeavyHitters final : public Policy {
 public:
  HeavyHitters(const Params& params, const Context& context)
      : recent_(params.amount("recent", context.budget)),
        num_heavy_(std::max(0, context.budget - recent_)),
        full_attention_(params.choice("score") == "full"),
        rule_{
            .kind = params.choice("score") == "mean" ? ScoreRule::Kind::mean : ScoreRule::Kind::sum,
            .sign = params.choice("keep") == "light" ? -1.F : 1.F},
        overlap_(params.choice("overlap") == "yes"),
        half_precision_(params.choice("precision") == "half"),
        slot_positions_(params.choice("positions") == "slot") {}

  Rules rules() const override {
    Rules rules{.protect_newest = recent_,
                .sees_full_attention = full_attention_,
                .prunes = overlap_,
                .slot_positions = slot_positions_};
    if (!overlap_ && !half_precision_) rules.score = rule_;
    return rules;
  }

  void update(const Step& step, std::span<double> scores) override {
    if (!overlap_ && !half_precision_) return Policy::update(step, scores);
    const auto attention = full_attention_ ? step.full_attention : step.attention;
    const ScoredStep scored{step.index, scores.size()};
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (scores[i] == kNotHeavy) continue;
      const float seen = half_precision_ ? round_to_half(attention[i]) : attention[i];
      const double sum = next_score(rule_, scored, step.tokens[i], scores[i], seen);
      scores[i] = half_precision_ ? round_to_half(static_cast<float>(sum)) : sum;
    }
    if (overlap_) limit_heavy_hitters(scores);
  }

 private:
  // Every token starts as a heavy hitter. As in the authors' program, a token that drops out of the
  // heaviest never becomes one again; only the recent window may still keep it. Each step adds one
  // token, so at most one heavy hitter is over the limit.
  void limit_heavy_hitters(std::span<double> scores) const {
    const auto num_not_heavy = std::count(scores.begin(), scores.end(), kNotHeavy);
    const auto lightest = std::min_element(scores.begin(), scores.end(), [](double a, double b) {
      return a != kNotHeavy && (b == kNotHeavy || a < b);
    });
    if (static_cast<int>(scores.size()) - num_not_heavy > num_heavy_) *lightest = kNotHeavy;
  }

  int recent_;
  int num_heavy_;
  bool full_attention_;
  ScoreRule rule_;
  bool overlap_;
  bool half_precision_;
  bool slot_positions_;
};

// A recent window given as a share of the budget protects a different number of tokens at each
// budget.
bool full_attention_nests(const Params& params) {
  return params.choice("score") == "full" && !params.is_share("recent") &&
         params.choice("overlap") == "no" && params.choice("positions") == "text";
}

}  // namespace

PolicyInfo h2o_policy() {
  return {
      .name = "h2o",
      .keeps = "recent tokens and those with the most accumulated attention",
      .source = "H2O Algorithm 2, Remark D.15, section 5",
      .sees = "attention over the cache; score=full: over the whole text",
      .differences =
          "the authors' programs differ among themselves: see the presets; overlap=yes "
          "follows the heavy hitters step by step through a prompt, too",
      .params =
          {Param::amount("recent", "0.5", "newest tokens that always stay; 0 is Algorithm 2 alone"),
           Param::choice("score", {"sum", "mean", "full"},
                         "sum since arrival, mean per step seen (B.2), or the sum of full "
                         "attention"),
           Param::choice("overlap", {"no", "yes"},
                         "yes: recent tokens can be heavy hitters, too, so that fewer than the "
                         "budget stay"),
           Param::choice("precision", {"double", "half"},
                         "of the sums; in half precision they stop growing at 2048 or before"),
           Param::choice("positions", {"text", "slot"},
                         "slot: keys are rotated to their slot of the cache, where the trace tells "
                         "how"),
           Param::choice("keep", {"heavy", "light"},
                         "light: the recent tokens and those with the least attention stay, and "
                         "heavy hitters go (Figure 2c)")},
      .presets = h2o_presets(),
      .nests = full_attention_nests,
      .nests_with = "recent=16,score=full",
      .make = make_policy<HeavyHitters>};
}

}  // namespace kvsim
