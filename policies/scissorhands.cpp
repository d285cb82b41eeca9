// Scissorhands (Liu et al., NeurIPS 2023), Algorithm 2: evicts several tokens at once, those that
// were least often pivotal within the last steps.
//
// The printed line I[: -r] <- 0 clears the counters of all tokens outside the recent window; this
// file does the opposite, as the paper's text says. The counters cover the replayed steps: the
// paper allows either to collect them at the compression step or to maintain them (section 4.1,
// "Overhead Tradeoff"). `important=percentile` and `rank=any` reproduce the authors' program,
// `important=cache` and `rank=share` that of cold-compress.

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

enum class Importance { share, cache, percentile };
enum class Ranking { count, share, any };

Importance importance_named(const std::string& name) {
  if (name == "cache") return Importance::cache;
  return name == "percentile" ? Importance::percentile : Importance::share;
}

Ranking ranking_named(const std::string& name) {
  if (name == "share") return Ranking::share;
  return name == "any" ? Ranking::any : Ranking::count;
}

class Scissorhands final : public Policy {
 public:
  Scissorhands(const Params& params, const Context& context)
      : history_(params.integer("history")),
        recent_(params.amount("recent", context.budget)),
        drop_(static_cast<int>(std::floor(params.real("drop") * context.budget + 0.5))),
        important_(importance_named(params.choice("important"))),
        rank_(ranking_named(params.choice("rank"))) {}

  Rules rules() const override {
    Rules rules{.protect_newest = recent_,
                .drop = std::max(1, drop_),
                .remembered = {history_, sizeof(std::int32_t)}};
    if (important_ == Importance::share && rank_ == Ranking::count) {
      rules.score = ScoreRule{.kind = ScoreRule::Kind::unimportance, .length = history_};
    }
    return rules;
  }

  void update(const Step& step, std::span<double> scores) override {
    forget_oldest(step);
    std::vector<std::int32_t>& unimportant = unimportant_.emplace_back();
    const float threshold = least_important(step);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const std::int32_t token = step.tokens[i];
      int& count = counts_[static_cast<std::size_t>(token)];
      if (step.attention[i] < threshold) {
        ++count;
        unimportant.push_back(token);
      }
      scores[i] = score_of(count, std::min(history_, step.index - token + 1));
    }
  }

 private:
  // Attention below this is unimportant.
  float least_important(const Step& step) const {
    switch (important_) {
      case Importance::share:
        return 1 / static_cast<float>(step.index + 1);
      case Importance::cache:
        return 1 / static_cast<float>(step.tokens.size());
      case Importance::percentile:
        break;
    }
    return std::nextafter(percentile_90(step.attention), 2.F);
  }

  // Of a token that was unimportant in `count` of the `seen` steps of the history that saw it.
  double score_of(int count, int seen) const {
    switch (rank_) {
      case Ranking::count:
        return -count;
      case Ranking::share:
        return static_cast<double>(seen - count) / seen;
      case Ranking::any:
        break;
    }
    return count < seen ? 1 : 0;
  }

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
  Importance important_;
  Ranking rank_;
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
           Param::choice("important", {"share", "cache", "percentile"},
                         "which attention makes a token important at a step: an even share of the "
                         "text, an even share of the cache, or more than the 90th percentile over "
                         "the cache"),
           Param::choice("rank", {"count", "share", "any"},
                         "first go those unimportant in the most steps of the history, those "
                         "important in the smallest share of its steps since they arrived, or "
                         "those never important in it")},
      .presets = {{"paper", "",
                   "Algorithm 2 with m = 0.5B as in section 4.1, where the budget is smaller in "
                   "earlier layers; not run: the authors' program is another (official)"},
                  {"official", "history=100,drop=0,important=percentile,rank=any",
                   "the authors' program; it has no budget and drops whatever was not important "
                   "in any of the last 100 steps, takes the percentile over a row with its "
                   "future zeros, and compresses layers 5 to 35 only: here the budget holds in "
                   "every layer; not run"},
                  {"cold-compress", "drop=0,important=cache,rank=share",
                   "KVCacheHeavyHitter of cold-compress with attn_thresholding; its "
                   "max_cache_length C is a budget of C-1, its recent_window recent=N. It evicts "
                   "what was never important while slots are empty, and of equals the token in "
                   "the first slot: 10% of its sets, 26% of them without the former, 100% of them "
                   "without both"}},
      .make = make_policy<Scissorhands>};
}

}  // namespace kvsim
