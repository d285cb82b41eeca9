// TOVA, token omission via attention (Oren et al., 2024, section 4): drop what the current query
// attends to least.

#include <algorithm>

#include "policies/registry.h"

namespace kvsim {
namespace {

class Tova final : public Policy {
 public:
  Tova(const Params& params, const Context&) : full_(params.choice("score") == "full") {}

  Rules rules() const override { return {.sees_full_attention = full_}; }

  void update(const Step& step, std::span<double> scores) override {
    const auto attention = full_ ? step.full_attention : step.attention;
    std::copy(attention.begin(), attention.end(), scores.begin());
  }

 private:
  bool full_;
};

}  // namespace

PolicyInfo tova_policy() {
  return {
      .name = "tova",
      .keeps = "the tokens with the most attention at the current step",
      .source = "TOVA section 4",
      .sees = "attention over the cache; score=full: over the whole text",
      .differences = "each KV head decides alone; the paper takes the mean over a layer's heads",
      .params = {Param::choice("score", {"cached", "full"},
                               "attention over the cache, or over the whole text")},
      .make = make_policy<Tova>};
}

}  // namespace kvsim
