// One decision for all KV heads of a layer, as engines need whose block tables are of tokens, not
// of heads: each head scores as it would alone, and the joined scores say what leaves all of them.

#include <string>

#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

JoinedScores joined_scores(const Params& params) {
  const std::string& scores = params.choice("scores");
  if (scores == "max") return JoinedScores::max;
  return scores == "rank" ? JoinedScores::mean_rank : JoinedScores::mean;
}

void share(Rules& rules, const Params& params, const Context&) {
  rules.scope = Scope::layer;
  rules.joined = joined_scores(params);
}

std::string why_not_shared(const PolicyInfo& policy, const Rules& rules, const Params& params) {
  if (policy.make_estimator != nullptr) return "an estimator has entries of its own in each head";
  if (rules.selects) return "it evicts nothing, it selects";
  if (!rules.bounded && !rules.prunes) return "it evicts nothing";
  if (rules.scope != Scope::head) return "its heads share one cache already";
  const JoinedScores joined = joined_scores(params);
  if (policy.follows_schedule) return "a schedule says for each head what leaves it";
  if (policy.make_planner != nullptr && !policy.plans_shared) {
    return "it plans head by head, as optimal does not";
  }
  if (policy.make_planner != nullptr && joined != JoinedScores::mean) {
    return "an oracle sums the costs of the heads, it joins no scores";
  }
  if (rules.prunes && joined == JoinedScores::mean_rank) {
    return "a rank does not say what it prunes; join by mean or max";
  }
  return "";
}

}  // namespace

CombinatorInfo shared_combinator() {
  return {.name = "shared",
          .does = "all KV heads of a layer keep the same tokens, by their joined scores",
          .source = "kvsim, sim/replay/pages.md",
          .differences =
              "with scores=mean a policy that prunes leaves a token out of all heads when one "
              "prunes it, with max when all do; an oracle sums its costs over the heads",
          .params = {Param::choice("scores", {"mean", "max", "rank"},
                                   "the mean of the heads' scores, the largest, or the mean of "
                                   "their ranks among the candidates")},
          .change = share,
          .why_not = why_not_shared};
}

}  // namespace kvsim
