// Least frequently used, where an access is attention above an even share. H2O section 2 names it
// among the conventional eviction policies.

#include "policies/accesses.h"
#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

class LeastFrequentlyUsed final : public Policy {
 public:
  LeastFrequentlyUsed(const Params& params, const Context&)
      : full_(params.choice("score") == "full") {}

  Rules rules() const override {
    return {.sees_full_attention = full_, .score = ScoreRule{ScoreRule::Kind::frequency}};
  }

 private:
  bool full_;
};

}  // namespace

PolicyInfo lfu_policy() {
  return {
      .name = "lfu",
      .keeps = "the tokens attended to most often",
      .source = "conventional caching; H2O section 2",
      .sees = "attention over the cache; score=full: over the whole text",
      .differences = "the paper does not say what an access is; here it is more than an even share",
      .params = {access_param()},
      .nests = access_nests,
      .nests_with = "score=full",
      .make = make_policy<LeastFrequentlyUsed>};
}

}  // namespace kvsim
