// H2O, the heavy-hitter oracle (Zhang et al., NeurIPS 2023): Algorithm 2 with the accumulated score
// of Remark D.15, the budget shared with a recent window as in section 5.
//
// Algorithm 1 read literally scores the new token 0 and so keeps the first B tokens for good; the
// paper's experiments accumulate, as this does. The authors published six programs that differ in
// what the parameters below vary; the defaults are nearest to the real-drop one.

#include <algorithm>
#include <limits>

#include "policies/h2o_presets.h"
#include "policies/half.h"
#include "policies/registry.h"

namespace kvsim {
namespace {

constexpr double kOut = -std::numeric_limits<double>::infinity();

class HeavyHitters final : public Policy {
 public:
  HeavyHitters(const Params& params, const Context& context)
      : recent_(params.amount("recent", context.budget)),
        num_heavy_(std::max(0, context.budget - recent_)),
        full_(params.choice("score") == "full"),
        rule_{params.choice("score") == "mean" ? ScoreRule::Kind::mean : ScoreRule::Kind::sum},
        overlap_(params.choice("overlap") == "yes"),
        half_(params.choice("precision") == "half"),
        slots_(params.choice("positions") == "slot") {}

  Rules rules() const override {
    Rules rules{.protect_newest = recent_,
                .sees_full_attention = full_,
                .prunes = overlap_,
                .slot_positions = slots_};
    if (!overlap_ && !half_) rules.score = rule_;
    return rules;
  }

  void update(const Step& step, std::span<double> scores) override {
    if (!overlap_ && !half_) return Policy::update(step, scores);
    const auto attention = full_ ? step.full_attention : step.attention;
    const ScoredStep scored{step.index, scores.size()};
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (scores[i] == kOut) continue;
      const float seen = half_ ? round_to_half(attention[i]) : attention[i];
      const double sum = next_score(rule_, scored, step.tokens[i], scores[i], seen);
      scores[i] = half_ ? round_to_half(static_cast<float>(sum)) : sum;
    }
    if (overlap_) limit_heavy_hitters(scores);
  }

 private:
  // Every token starts as a heavy hitter. One that is no more among the heaviest never is again, as
  // in the authors' program; the recent window alone keeps it for a while. Each step brings one
  // token, so at most one is too many.
  void limit_heavy_hitters(std::span<double> scores) const {
    const auto num_out = std::count(scores.begin(), scores.end(), kOut);
    const auto lightest = std::min_element(scores.begin(), scores.end(), [](double a, double b) {
      return a != kOut && (b == kOut || a < b);
    });
    if (static_cast<int>(scores.size()) - num_out > num_heavy_) *lightest = kOut;
  }

  int recent_;
  int num_heavy_;
  bool full_;
  ScoreRule rule_;
  bool overlap_;
  bool half_;
  bool slots_;
};

// A recent window that is a share of the budget protects other tokens at every budget.
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
                         "how")},
      .presets = h2o_presets(),
      .nests = full_attention_nests,
      .nests_with = "recent=16,score=full",
      .make = make_policy<HeavyHitters>};
}

}  // namespace kvsim
