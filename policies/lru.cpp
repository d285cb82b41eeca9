// Least recently used, where an access is attention above an even share. H2O section 2 names it
// among the conventional eviction policies, Scissorhands section 4.1 as its inspiration.

#include "policies/accesses.h"
#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

class LeastRecentlyUsed final : public Policy {
 public:
  LeastRecentlyUsed(const Params& params, const Context&)
      : full_(params.choice("score") == "full") {}

  Rules rules() const override {
    return {.sees_full_attention = full_, .score = ScoreRule{ScoreRule::Kind::recency}};
  }

 private:
  bool full_;
};

}  // namespace

PolicyInfo lru_policy() {
  return {.name = "lru",
          .keeps = "the tokens attended to most recently",
          .source = "conventional caching; H2O section 2, Scissorhands section 4.1",
          .sees = "attention over the cache; score=full: over the whole text",
          .differences = "neither paper says what an access is; here it is more than an even share",
          .params = {access_param()},
          .nests = access_nests,
          .nests_with = "score=full",
          .make = make_policy<LeastRecentlyUsed>};
}

}  // namespace kvsim
