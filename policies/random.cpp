// Random eviction: the control that shows what a policy's choices are worth.

#include "policies/random_bits.h"
#include "policies/registry.h"

namespace kvsim {
namespace {

class Random final : public Policy {
 public:
  Random(const Params&, const Context& context) : seed_(context.seed) {}

  Rules rules() const override { return {.protect_newest = 1}; }

  // Fresh draws at every eviction: with one draw per token for good, survivors would be those that
  // drew high, and newcomers would leave more often than their share.
  void update(const Step& step, std::span<double> scores) override {
    if (step.overflow == 0) return;
    const std::uint64_t draw = random_bits(seed_, static_cast<std::uint64_t>(step.index));
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const auto token = static_cast<std::uint64_t>(step.tokens[i]);
      scores[i] = static_cast<double>(random_bits(draw, token) >> 11);
    }
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
