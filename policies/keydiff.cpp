// KeyDiff (Park et al., "KeyDiff: Key Similarity-Based KV Cache Eviction", 2025, section 3): keeps
// the keys that differ most from the others, measured by the cosine between a key and the mean
// direction of the keys in the cache.

#include "policies/interface/policy_info.h"
#include "policies/mean_direction.h"

namespace kvsim {
namespace {

class KeyDifference final : public Policy {
 public:
  KeyDifference(const Params&, const Context&) {}

  Rules rules() const override { return {.score = ScoreRule{ScoreRule::Kind::key_difference}}; }

  void update(const Step& step, std::span<double> scores) override {
    directions_.add(step.index, step.keys[scores.size() - 1]);
    if (step.overflow > 0) directions_.score(step.tokens, step.keys, scores);
  }

 private:
  MeanDirection directions_;
};

}  // namespace

PolicyInfo keydiff_policy() {
  return {.name = "keydiff",
          .keeps = "the tokens whose keys are least like the others",
          .source = "KeyDiff section 3",
          .sees = "keys",
          .differences =
              "the paper evicts in blocks, as --eviction-interval K does; by default here at every "
              "overflow",
          .params = {},
          .scoring_cost =
              [](const Params&, const UnitSizes& unit, std::int64_t held) {
                return unit.attended(held) * (20 + unit.head_dim * 2 / 5);
              },
          .make = make_policy<KeyDifference>};
}

}  // namespace kvsim
