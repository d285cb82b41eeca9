// Uniform random eviction: the control for every other policy.

#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

class Random final : public Policy {
 public:
  Random(const Params&, const Context& context) : seed_(context.seed) {}

  // A fresh draw at every step. With one fixed draw per token, the survivors would be the tokens
  // with high draws, and new tokens would be evicted more often than their share.
  Rules rules() const override {
    return {.protect_newest = 1, .score = ScoreRule{ScoreRule::Kind::random, seed_}};
  }

 private:
  std::uint64_t seed_;
};

}  // namespace

PolicyInfo random_policy() {
  return {.name = "random",
          .keeps = "a uniform choice, the newest token always",
          .source = "the control",
          .sees = "nothing",
          .differences = "",
          .params = {},
          .nests = always_nests,
          .make = make_policy<Random>};
}

}  // namespace kvsim
