// KeyDiff (Park et al., "KeyDiff: Key Similarity-Based KV Cache Eviction", 2025, section 3): keeps
// the keys that differ most from the others, measured by the cosine between a key and the mean
// direction of the keys in the cache.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

class KeyDifference final : public Policy {
 public:
  KeyDifference(const Params&, const Context&) {}

  Rules rules() const override { return {.score = ScoreRule{ScoreRule::Kind::key_difference}}; }

  void update(const Step& step, std::span<double> scores) override {
    lengths_.resize(static_cast<std::size_t>(step.index) + 1);
    lengths_.back() = length(step.keys[scores.size() - 1]);
    if (step.overflow == 0) return;
    std::vector<double> mean(step.keys[0].size(), 0);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const double share = 1 / length_of(step.tokens[i]);
      const float* key = step.keys[i].data();
      for (std::size_t d = 0; d < mean.size(); ++d) mean[d] += share * key[d];
    }
    // Not divided by the length of the mean, which scales all cosines by the same factor.
    for (std::size_t i = 0; i < scores.size(); ++i) {
      scores[i] = -dot_product(step.keys[i], mean) / length_of(step.tokens[i]);
    }
  }

 private:
  double length_of(std::int32_t token) const { return lengths_[static_cast<std::size_t>(token)]; }

  // A zero key has no direction; the least double keeps its cosine at 0.
  static double length(std::span<const float> key) {
    const double square = std::inner_product(key.begin(), key.end(), key.begin(), 0.0);
    return std::max(std::sqrt(square), std::numeric_limits<double>::min());
  }

  // Partial sums let the compiler use vector instructions.
  static double dot_product(std::span<const float> key, std::span<const double> mean) {
    std::array<double, 8> sums = {};
    std::size_t d = 0;
    for (; d + sums.size() <= key.size(); d += sums.size()) {
      for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += key[d + k] * mean[d + k];
    }
    for (; d < key.size(); ++d) sums[0] += key[d] * mean[d];
    return std::accumulate(sums.begin(), sums.end(), 0.0);
  }

  std::vector<double> lengths_;  // of the keys, by text position
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
          .make = make_policy<KeyDifference>};
}

}  // namespace kvsim
