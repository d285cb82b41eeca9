// Scissorhands (Liu et al., NeurIPS 2023), Algorithm 2: drop at once the tokens that were least
// often pivotal within the last steps.
//
// The printed line I[: -r] <- 0 clears the counters of all but the recent window; the text says,
// and this does, the opposite. The counters are those of the steps that were replayed: the paper
// allows to collect them at the compression step or to maintain them (section 4.1, "Overhead
// Tradeoff").

#include <algorithm>
#include <deque>
#include <vector>

#include "policies/registry.h"

namespace kvsim {
namespace {

class Scissorhands final : public Policy {
 public:
  Scissorhands(const Params& params, const Context& context)
      : history_(static_cast<std::size_t>(params.integer("history"))),
        recent_(params.amount("recent", context.budget)),
        drop_(static_cast<int>(params.real("drop") * context.budget + 0.5)) {}

  Rules rules() const override { return {.protect_newest = recent_, .drop = std::max(1, drop_)}; }

  // A score is the negative of a counter: how many of the last steps gave the token less than an
  // even share of the attention.
  void update(const Step& step, std::span<double> scores) override {
    if (unimportant_.size() == history_) forget_oldest(step, scores);
    std::vector<std::int32_t>& unimportant = unimportant_.emplace_back();
    const float even_share = 1 / static_cast<float>(step.index + 1);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (step.attention[i] >= even_share) continue;
      --scores[i];
      unimportant.push_back(step.tokens[i]);
    }
  }

 private:
  void forget_oldest(const Step& step, std::span<double> scores) {
    std::size_t slot = 0;
    for (const std::int32_t token : unimportant_.front()) {
      while (slot < scores.size() && step.tokens[slot] < token) ++slot;
      if (slot < scores.size() && step.tokens[slot] == token) ++scores[slot];
    }
    unimportant_.pop_front();
  }

  std::size_t history_;
  int recent_;
  int drop_;
  std::deque<std::vector<std::int32_t>> unimportant_;  // per step of the history, ascending
};

}  // namespace

PolicyInfo scissorhands_policy() {
  return {.name = "scissorhands",
          .keeps = "recent tokens and those seldom below an even share of the attention",
          .source = "Scissorhands Algorithm 2",
          .sees = "attention over the cache",
          .differences = "the authors' program has no budget: it masks a prompt by a threshold",
          .params = {Param::integer("history", 400, 1, 1'000'000, "steps that the counters cover"),
                     Param::amount("recent", "10", "newest tokens that always stay"),
                     Param::real("drop", 0.5, 0, 1,
                                 "share of the budget that goes at once; 0: one token")},
          .make = make_policy<Scissorhands>};
}

}  // namespace kvsim
