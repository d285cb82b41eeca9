// Reservoir: recent tokens, heavy hitters, and a uniform sample of all other tokens of the text.
// Where attention is spread out, an output is near the mean of the values, and a sample of the text
// estimates a mean without bias. Each token has one draw for good, and the highest stay, as in
// reservoir sampling (Vitter, "Random Sampling with a Reservoir", ACM Transactions on Mathematical
// Software 11(1), 1985): all older tokens are equally likely to be in the sample. Under `random`,
// which draws anew at every step, the older a token, the likelier it is gone.

#include "policies/heavy_hitters.h"
#include "sim/base/random_bits.h"

namespace kvsim {
namespace {

class Reservoir final : public Policy {
 public:
  Reservoir(const Params& params, const Context& context)
      : recent_(params.amount("recent", context.budget)),
        seed_(context.seed),
        heavy_hitters_(params, context) {}

  Rules rules() const override { return {.protect_newest = recent_}; }

  void update(const Step& step, std::span<double> scores) override {
    heavy_hitters_.add(step.tokens, step.attention);
    if (step.overflow == 0) return;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      scores[i] =
          static_cast<double>(random_bits(seed_, static_cast<std::uint64_t>(step.tokens[i])) >> 11);
    }
    const auto recent = std::min(static_cast<std::size_t>(recent_), scores.size());
    heavy_hitters_.prefer(step.tokens.first(step.tokens.size() - recent), scores);
  }

 private:
  int recent_;
  std::uint64_t seed_;
  HeavyHitterShare heavy_hitters_;
};

bool reservoir_nests(const Params& params) {
  return HeavyHitterShare::nests(params) && !params.is_share("recent");
}

}  // namespace

PolicyInfo reservoir_policy() {
  return {.name = "reservoir",
          .keeps = "recent tokens and a uniform sample of the others; with h2, heavy hitters, too",
          .source = "policies/new_policies.md; Vitter 1985 for the sample",
          .sees = "nothing; with h2, attention over the cache",
          .differences = "",
          .params = {Param::amount("recent", "0.25", "newest tokens that always stay"),
                     HeavyHitterShare::param()},
          .nests = reservoir_nests,
          .nests_with = "recent=16",
          .make = make_policy<Reservoir>};
}

}  // namespace kvsim
