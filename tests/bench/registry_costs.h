#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/attention/attention.h"
#include "traces/unit.h"

namespace kvsim::bench {

/// An entry of a registry with its default parameters, to be timed on one head.
struct CostEntry {
  std::string kind;  ///< policy, oracle or analysis
  std::string name;
  std::function<void()> run;  ///< null: it is not run
  std::string why_not = {};   ///< the reason, if it is not run
};

/// The head with all that a trace may hold in addition: rotation, token ids, a needle and an
/// answer, a prompt of half the text.
Unit head_of_costs(int tokens, int head_dim, std::uint64_t seed);

/// Every policy, oracle and analysis, each on this head alone. Replays are at `budget` tokens in
/// stream mode; a policy that scores the prompt alone is replayed in prefill mode and cut once.
/// What needs more of a trace, a projection or gradients, gets the head with random ones, and its
/// replays then measure more. An analysis of replays gets those of `h2o`, `tova` and `subgen`,
/// which are not timed. `head` and `backend` have to outlive the entries.
std::vector<CostEntry> registry_costs(const Unit& head, int budget, const Backend& backend);

}  // namespace kvsim::bench
