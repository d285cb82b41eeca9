// Sparse Transformer, fixed pattern (Child et al., "Generating Long Sequences with Sparse
// Transformers", 2019, sections 4.1 and 4.2): keeps the current block and, as summaries, the last
// tokens of each earlier block. H2O (section 5.1, Table 2) runs it within a budget, alone or
// sharing the budget with heavy hitters.
//
// Each head attends to both parts, like the merged heads of section 4.3. In the paper, other heads
// use other tokens of a block as summaries.

#include "policies/heavy_hitters.h"

namespace kvsim {
namespace {

class Fixed final : public Policy {
 public:
  Fixed(const Params& params, const Context& context)
      : rule_{.kind = ScoreRule::Kind::blocks,
              .length = params.integer("block"),
              .part = params.integer("summary")},
        heavy_hitters_(params, context) {}

  Rules rules() const override {
    if (heavy_hitters_.is_enabled()) return {};
    return {.score = rule_};
  }

  void update(const Step& step, std::span<double> scores) override {
    heavy_hitters_.add(step.tokens, step.attention);
    if (step.overflow == 0) return;
    const ScoredStep scored{step.index, scores.size()};
    for (std::size_t i = 0; i < scores.size(); ++i) {
      scores[i] = next_score(rule_, scored, step.tokens[i], scores[i], 0);
    }
    heavy_hitters_.prefer(step.tokens, scores);
  }

 private:
  ScoreRule rule_;
  HeavyHitterShare heavy_hitters_;
};

}  // namespace

PolicyInfo fixed_policy() {
  return {.name = "fixed",
          .keeps = "the current block, then the ends of earlier ones, then the most recent others",
          .source = "Child et al. 2019 sections 4.1-4.3; H2O section 5.1, Table 2",
          .sees = "positions; with h2, attention over the cache",
          .differences =
              "the paper's blocks of 128 and summaries of 8 fill most budgets, so the "
              "defaults are smaller; neither paper says which summaries a short budget "
              "drops: the oldest",
          .params = {Param::integer("block", 32, 1, 1'000'000, "tokens of a block"),
                     Param::integer("summary", 4, 1, 1'000'000,
                                    "last tokens of each earlier block that stay"),
                     HeavyHitterShare::param()},
          .nests = HeavyHitterShare::nests,
          .make = make_policy<Fixed>};
}

}  // namespace kvsim
