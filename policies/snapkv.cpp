// SnapKV (Li et al., "SnapKV: LLM Knows What You are Looking for Before Generation", 2024, section
// 4.1, Listing 1): the last steps form an observation window and vote with their attention, votes
// are pooled over neighbouring tokens, and the tokens with the fewest votes are evicted.
//
// The paper compresses once, at the end of the prompt: --mode prefill --eviction-interval never. In
// other protocols the window moves with the text and votes at each overflow.

#include <algorithm>
#include <vector>

#include "policies/interface/policy_info.h"
#include "policies/parts/pooling.h"
#include "policies/parts/recent_attention.h"

namespace kvsim {
namespace {

class SnapKV final : public Policy {
 public:
  SnapKV(const Params& params, const Context&)
      : window_(params.integer("window")),
        votes_(window_),
        kernel_(static_cast<std::size_t>(params.integer("kernel"))),
        max_(params.choice("pool") == "max") {}

  Rules rules() const override {
    return {.protect_newest = window_,
            .score = ScoreRule{.kind = ScoreRule::Kind::votes,
                               .length = window_,
                               .part = static_cast<int>(kernel_),
                               .adds = !max_},
            .remembered = {window_, RecentAttention::kBytesPerToken}};
  }

  void update(const Step& step, std::span<double> scores) override {
    votes_.add(step.tokens, step.attention);
    if (step.overflow > 0) pool_votes(step, scores);
  }

  /// The mean over the window, and of neighbours.
  double published(double score) const override {
    return score / (window_ * (max_ ? 1.0 : static_cast<double>(kernel_)));
  }

 private:
  // A window longer than the budget leaves nothing to choose.
  void pool_votes(const Step& step, std::span<double> scores) const {
    const std::size_t window = std::min(static_cast<std::size_t>(window_), step.tokens.size());
    std::vector<double> sums;
    for (const std::int32_t token : step.tokens.first(step.tokens.size() - window)) {
      sums.push_back(votes_.of(token));
    }
    std::ranges::copy(pool_neighbours(sums, kernel_, max_), scores.begin());
  }

  int window_;
  RecentAttention votes_;  // of the window's steps
  std::size_t kernel_;
  bool max_;
};

}  // namespace

PolicyInfo snapkv_policy() {
  return {
      .name = "snapkv",
      .keeps = "the last tokens, and with their neighbours those that the last steps attended to",
      .source = "SnapKV section 4.1, Listing 1; parameters of sections 5.1.1 and 5.2",
      .sees = "attention over the cache",
      .differences =
          "the paper compresses a prompt once and keeps all that follows, as --mode prefill "
          "--eviction-interval never does; otherwise the window goes on and each overflow asks it "
          "again. Votes are pooled after the mean over the query heads of a KV head; pooling by "
          "maximum gives neighbours equal votes, so that ties decide much: see the column ties",
      .params = {Param::integer("window", 16, 1, 1'000'000,
                                "last steps that vote; their tokens always stay"),
                 Param::integer("kernel", 5, 1, 1'000, "neighbouring tokens that share votes"),
                 Param::choice("pool", {"max", "avg"}, "how they share")},
      .presets = {{"longbench", "window=32,kernel=7,pool=max",
                   "SnapKV section 5.3, with --mode prefill --eviction-interval never; "
                   "max_capacity_prompt is the budget; maximum pooling makes plateaus, and of "
                   "equals the program keeps others: 25% of its sets"},
                  {"code", "window=32,kernel=5,pool=avg",
                   "defaults of the authors' program, and SnapKVPress of kvpress with "
                   "window_size=32, with --mode prefill --eviction-interval never; "
                   "max_capacity_prompt or n_kept is the budget: 100% of their sets"}},
      .make = make_policy<SnapKV>};
}

}  // namespace kvsim
