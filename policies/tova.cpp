// TOVA, token omission via attention (Oren et al., 2024, section 4): drop what the current query
// attends to least.

#include <algorithm>

#include "policies/registry.h"

namespace kvsim {
namespace {

class Tova final : public Policy {
 public:
  Tova(const Params&, const Context&) {}

  void update(const Step& step, std::span<double> scores) override {
    std::copy(step.attention.begin(), step.attention.end(), scores.begin());
  }
};

}  // namespace

PolicyInfo tova_policy() {
  return {
      .name = "tova",
      .keeps = "the tokens with the most attention at the current step",
      .source = "TOVA section 4",
      .sees = "attention over the cache",
      .differences = "each KV head decides alone; the paper takes the mean over a layer's heads",
      .params = {},
      .make = make_policy<Tova>};
}

}  // namespace kvsim
