// KeyDiff (Park et al., "KeyDiff: Key Similarity-Based KV Cache Eviction", 2025, section 3): keep
// keys that differ from the others, measured by their cosine with the mean direction of the cache.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "policies/registry.h"

namespace kvsim {
namespace {

class KeyDifference final : public Policy {
 public:
  KeyDifference(const Params&, const Context&) {}

  void update(const Step& step, std::span<double> scores) override {
    if (step.overflow == 0) return;
    std::vector<double> mean(step.keys[0].size(), 0);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const double length = norm(step.keys[i]);
      for (std::size_t d = 0; d < mean.size(); ++d) mean[d] += step.keys[i][d] / length;
    }
    // The length of the mean scales all cosines alike.
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const std::span<const float> key = step.keys[i];
      scores[i] = -std::inner_product(key.begin(), key.end(), mean.begin(), 0.0) / norm(key);
    }
  }

 private:
  // A zero key has no direction; the least double keeps its cosine at 0.
  static double norm(std::span<const float> key) {
    const double square = std::inner_product(key.begin(), key.end(), key.begin(), 0.0);
    return std::max(std::sqrt(square), std::numeric_limits<double>::min());
  }
};

}  // namespace

PolicyInfo keydiff_policy() {
  return {.name = "keydiff",
          .keeps = "the tokens whose keys are least like the others",
          .source = "KeyDiff section 3",
          .sees = "keys",
          .differences = "the paper evicts in blocks; here at every overflow",
          .params = {},
          .make = make_policy<KeyDifference>};
}

}  // namespace kvsim
