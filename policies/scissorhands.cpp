// Scissorhands (Liu et al., NeurIPS 2023), Algorithm 2: evicts several tokens at once, those that
// were least often pivotal within the last steps.
//
// The printed line I[: -r] <- 0 clears the counters of all tokens outside the recent window; this
// file does the opposite, as the paper's text says. The counters cover the replayed steps: the
// paper allows either to collect them at the compression step or to maintain them (section 4.1,
// "Overhead Tradeoff"). `important=percentile` and `rank=any` reproduce the authors' program.

#include <algorithm>
#include <cmath>
#include <deque>
#include <vector>

#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

// The largest value that is not above the 90th percentile. The same values exceed it as exceed the
// percentile, wherever between its two neighbours the percentile lies.
float percentile_90(std::span<const float> attention) {
  std::vector<float> values(attention.begin(), attention.end());
  const auto rank = values.begin() + static_cast<std::ptrdiff_t>(9 * (values.size() - 1) / 10);
  std::nth_element(values.begin(), rank, values.end());
  return *rank;
}

class Scissorhands final : public Policy {
 public:
  Scissorhands(const Params& params, const Context& context)
      : history_(params.integer("history")),
        recent_(params.amount("recent", context.budget)),
        drop_(static_cast<int>(std::floor(params.real("drop") * context.budget + 0.5))),
        percentile_(params.choice("important") == "percentile"),
        any_(params.choice("rank") == "any") {}

  Rules rules() const override {
    Rules rules{.protect_newest = recent_,
                .drop = std::max(1, drop_),
                .remembered = {history_, sizeof(std::int32_t)}};
    if (!percentile_ && !any_) {
      rules.score = ScoreRule{.kind = ScoreRule::Kind::unimportance, .length = history_};
    }
    return rules;
  }

  void update(const Step& step, std::span<double> scores) override {
    forget_oldest(step);
    std::vector<std::int32_t>& unimportant = unimportant_.emplace_back();
    const float threshold = percentile_ ? percentile_90(step.attention) : 0;
    const float even_share = 1 / static_cast<float>(step.index + 1);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const std::int32_t token = step.tokens[i];
      int& count = counts_[static_cast<std::size_t>(token)];
      const float attention = step.attention[i];
      if (percentile_ ? attention <= threshold : attention < even_share) {
        ++count;
        unimportant.push_back(token);
      }
      scores[i] = any_ ? count < std::min(history_, step.index - token + 1) : -count;
    }
  }

 private:
  void forget_oldest(const Step& step) {
    counts_.resize(static_cast<std::size_t>(step.index) + 1, 0);
    if (static_cast<int>(unimportant_.size()) < history_) return;
    for (const std::int32_t token : unimportant_.front()) {
      --counts_[static_cast<std::size_t>(token)];
    }
    unimportant_.pop_front();
  }

  int history_;
  int recent_;
  int drop_;
  bool percentile_;
  bool any_;
  std::vector<int> counts_;  // per token: steps of the history in which it was unimportant
  std::deque<std::vector<std::int32_t>> unimportant_;  // tokens, per step of the history
};

}  // namespace

PolicyInfo scissorhands_policy() {
  return {
      .name = "scissorhands",
      .keeps = "recent tokens and those seldom below an even share of the attention",
      .source = "Scissorhands Algorithm 2",
      .sees = "attention over the cache",
      .differences =
          "the authors' program has no budget: it masks a prompt by a threshold "
          "(preset=official)",
      .params =
          {Param::integer("history", 400, 1, 1'000'000, "steps that the counters cover"),
           Param::amount("recent", "10", "newest tokens that always stay"),
           Param::real("drop", 0.5, 0, 1, "share of the budget that goes at once; 0: one token"),
           Param::choice("important", {"share", "percentile"},
                         "which attention makes a token important at a step: an even share, or "
                         "more than the 90th percentile over the cache"),
           Param::choice("rank", {"count", "any"},
                         "first go those most often unimportant in the history, or those never "
                         "important in it")},
      .presets = {{"paper", "",
                   "Algorithm 2 with m = 0.5B as in section 4.1, where the budget is smaller in "
                   "earlier layers"},
                  {"official", "history=100,drop=0,important=percentile,rank=any",
                   "the authors' program; it has no budget and drops whatever was not important "
                   "in any of the last 100 steps, takes the percentile over a row with its "
                   "future zeros, and compresses layers 5 to 35 only: here the budget holds in "
                   "every layer"}},
      .make = make_policy<Scissorhands>};
}

}  // namespace kvsim
