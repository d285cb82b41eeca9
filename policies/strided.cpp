// Sparse Transformer, strided pattern (Child et al., "Generating Long Sequences with Sparse
// Transformers", 2019, sections 4.1 and 4.2): keeps the last tokens and one column per stride. H2O
// (section 5.1, Table 2) runs it within a budget, alone or sharing the budget with heavy hitters.
//
// The paper's columns of step i are i - stride, i - 2 stride, ...: they move with i. An evicted
// token cannot return, so the columns here have fixed text positions. Each head attends to both
// parts, like the merged heads of section 4.3.

#include "policies/heavy_hitters.h"

namespace kvsim {
namespace {

class Strided final : public Policy {
 public:
  Strided(const Params& params, const Context& context)
      : rule_{.kind = ScoreRule::Kind::columns, .length = params.integer("stride")},
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

PolicyInfo strided_policy() {
  return {.name = "strided",
          .keeps = "the last tokens, then every stride-th token, then the most recent others",
          .source = "Child et al. 2019 sections 4.1-4.3; H2O section 5.1, Table 2",
          .sees = "positions; with h2, attention over the cache",
          .differences =
              "columns stand at fixed text positions instead of moving with the step; "
              "neither paper says which columns a short budget drops: the oldest",
          .params = {Param::integer("stride", 32, 1, 1'000'000,
                                    "last tokens, and distance of the columns; the paper's is near "
                                    "the square root of the length"),
                     HeavyHitterShare::param()},
          .nests = HeavyHitterShare::nests,
          .make = make_policy<Strided>};
}

}  // namespace kvsim
