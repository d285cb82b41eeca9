// SpAtten (Wang et al., HPCA 2021, section III-A, "Cascade Token Pruning"; compared in H2O section
// C.9): the importance of a token is the attention that it received in all heads, layers and steps
// so far. Each layer keeps the most important tokens; a token dropped in a layer is dropped in all
// later layers too.
//
// The paper sums over heads. The mean used here gives the same order, because all layers have the
// same number of heads.

#include "policies/heavy_hitters.h"
#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

class SpAtten final : public Policy {
 public:
  SpAtten(const Params&, const Context&) {}

  Rules rules() const override { return {.scope = Scope::model}; }

  void update(const Step& step, std::span<double> scores) override {
    importance_.add(step.tokens, step.attention);
    for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = importance_.of(step.tokens[i]);
  }

 private:
  AccumulatedAttention importance_;  // over all layers
};

}  // namespace

PolicyInfo spatten_policy() {
  return {.name = "spatten",
          .keeps = "the tokens with the most attention accumulated over heads, layers and steps",
          .source = "SpAtten section III-A; H2O section C.9",
          .sees = "attention over the cache, in all layers in turn",
          .differences =
              "the paper keeps a share of the tokens that is smaller in later layers, "
              "here the budget says how many; head and local value pruning and "
              "progressive quantisation are left out",
          .params = {},
          .make = make_policy<SpAtten>};
}

}  // namespace kvsim
