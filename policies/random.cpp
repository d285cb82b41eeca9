// Random eviction: the control that shows what a policy's choices are worth.

#include "policies/registry.h"

namespace kvsim {
namespace {

class Random final : public Policy {
 public:
  Random(const Params&, const Context& context) : seed_(context.seed) {}

  // Fresh draws at every step: with one draw per token for good, survivors would be those that drew
  // high, and newcomers would leave more often than their share.
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
