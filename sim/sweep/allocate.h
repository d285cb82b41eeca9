#pragma once

#include <map>
#include <set>
#include <span>
#include <vector>

#include "policies/registry/spec.h"
#include "sim/attention/attention.h"
#include "sim/replay/replay.h"
#include "sim/sweep/attention_spread.h"

namespace kvsim {

struct HeadTable;

/// The last steps whose attention `adaptive` and `cake` measure for a policy that has no votes of
/// its own, as in SnapKV, AdaKV and CAKE.
constexpr int kVotingSteps = 32;

/// What allocations measure of one unit: over the prompt in prefill mode, over the whole text in
/// stream mode, where the split then uses the future.
struct UnitProfile {
  UnitName name;
  /// Persistence::ratio() with the split in the middle, mean over the group's query heads.
  double persistence = 1;
  /// By a number of last steps: their attention to each token, summed over steps and query heads.
  std::map<int, std::vector<double>> attention_of_last;
  std::map<int, AttentionSpread> spread_of_last;  ///< likewise, of all query heads together
};

/// Measures `unit`, from its full attention. `last_steps`: the keys of attention_of_last
/// and spread_of_last.
UnitProfile measure_profile(const Unit& unit, const Protocol& protocol, const Backend& backend,
                            const std::set<int>& last_steps = {kVotingSteps});

/// What a policy's rules say of the newest tokens.
struct PolicyWindow {
  int protects = 0;  ///< newest tokens that stay at any budget: no share of it
  int voting_steps = kVotingSteps;
  std::size_t kernel = 1;      ///< neighbours whose votes are pooled (SnapKV)
  bool pools_maximum = false;  ///< else their sum
};

/// The window of a policy at this budget.
PolicyWindow window_of(const Spec& policy, int budget);

/// A budget to be split.
struct TotalBudget {
  int tokens = 1;     ///< B: the mean per head
  int most = 1;       ///< that a head can hold
  int length = most;  ///< tokens of the text at the first cut
  PolicyWindow window = {};
};

/// The budget of each of a sequence's units, ordered by layer: at least 1, at most `most`; their
/// sum is B times their number, if `most` allows it. Heads of a layer have the same budget, except
/// with `adaptive`, with those that read a file, and where layers differ in their number of
/// recorded heads.
///
/// With pyramid, adaptive, cake and headkv every head keeps the w newest tokens that its policy
/// protects, and the b = B - w others are split. A budget of no more than w is not split.
/// - pyramid (PyramidKV, KVCache-Factory): linear from 2 b - floor(b / 20) in the first layer to
///   floor(b / 20) in the last; where the text has no 2 b tokens, evenly. The program rounds the
///   step between layers down, so that later layers may get more and the sum may exceed B; here the
///   sum holds.
/// - persistence: proportional to 1 / the layer's persistence, mean over its heads.
/// - adaptive (AdaKV Algorithm 1): a fifth of B for every head, its window included; the rest of a
///   layer goes to the heads with the most attended tokens. The votes are those of the policy, if
///   it has votes (snapkv), else the attention of the last 32 steps.
/// - cake (CAKE section 4.1): proportional to H^(1/tau1) V^(1/tau2), H and V those of
///   AttentionSpread over the layer's heads and the last steps of the policy's votes, else 32;
///   rounded as cake_parts(), at most the text at the first cut. A budget of that length or more is
///   not split.
/// - file, duo, headkv: allocate_by_table(), from `table`, which has to be fitted() to the model.
std::vector<int> allocate(const AllocationSpec& allocation, const TotalBudget& budget,
                          std::span<const UnitProfile> units, const HeadTable* table = nullptr);

}  // namespace kvsim
