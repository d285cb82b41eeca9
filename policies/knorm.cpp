// Key norms (Devoto et al., "A Simple and Effective L2 Norm-Based Strategy for KV Cache
// Compression", EMNLP 2024, section 3): keys with a small norm attract much attention, so the
// tokens with the largest key norms are evicted.

#include <cmath>
#include <numeric>

#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

class KeyNorm final : public Policy {
 public:
  KeyNorm(const Params&, const Context&) {}

  Rules rules() const override { return {.score = ScoreRule{ScoreRule::Kind::newest}}; }

  void update(const Step& step, std::span<double> scores) override {
    const std::span<const float> key = step.keys[scores.size() - 1];
    scores.back() = -std::inner_product(key.begin(), key.end(), key.begin(), 0.0);
  }

  double published(double score) const override { return -std::sqrt(-score); }
};

}  // namespace

PolicyInfo knorm_policy() {
  return {
      .name = "knorm",
      .keeps = "the tokens with the shortest keys",
      .source = "Devoto et al. 2024 section 3",
      .sees = "keys",
      .differences =
          "the paper compresses the prompt (--mode prefill --eviction-interval never) and leaves "
          "two layers alone. In a first layer keys depend on the token alone, and where it "
          "recurs only rounding tells its scores apart",
      .params = {},
      .nests = always_nests,
      .make = make_policy<KeyNorm>};
}

}  // namespace kvsim
