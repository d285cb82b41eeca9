#pragma once

#include <atomic>
#include <map>
#include <span>
#include <vector>

#include "policies/registry/spec.h"
#include "sim/attention/attention.h"
#include "sim/replay/replay.h"

namespace kvsim {

/// |o - o'| / |o|, with o the output of the full cache and o' that of the evicting one, over all
/// measured steps and query heads, and its bound by Scissorhands Lemma B.4.
struct OutputErrors {
  double mean = 0;
  double p50 = 0;
  double p95 = 0;
  double max = 0;
  double bound_mean = 0;
  std::int64_t bound_violations = 0;
};

/// One policy on one unit at every budget; vectors are parallel to `budgets`.
struct Curve {
  std::vector<int> budgets;            ///< every_budget(): by token, entry B - 1 is budget B
  std::int64_t steps = 0;              ///< measured
  std::int64_t token_accesses = 0;     ///< pivotal tokens, the same at every budget
  std::vector<double> attention_loss;  ///< mean over measured steps and query heads
  std::vector<std::int64_t> token_misses;
  std::vector<std::int64_t> evictions;       ///< tokens that left
  std::vector<std::int64_t> peak_tokens;     ///< the most held from the first eviction on
  std::map<int, OutputErrors> output_error;  ///< by budget: those of CurveOptions::error_budgets

  /// Per budget and token: the step after which it leaves; n: never. Empty unless
  /// CurveOptions::schedules.
  std::vector<std::vector<std::int32_t>> evicted_after;
};

struct CurveOptions {
  Protocol protocol = {};
  std::uint64_t seed = 0;                          ///< as in ReplayOptions
  std::vector<int> error_budgets = {};             ///< of every_budget(), with errors; ascending
  bool schedules = false;                          ///< fill Curve::evicted_after
  const std::atomic<bool>* interrupted = nullptr;  ///< polled; true ends the work
};

/// Curves of policies whose caches nest, and of oracles that plan all budgets at once, parallel to
/// `policies`. Equal to replays at each budget: counts exactly, the rest up to rounding. The full
/// attention is computed once for all policies, and once or twice more for each oracle. Takes O(n²)
/// time per policy, O(n² d) with errors. Caches evict at every step, tokens or pages. Throws
/// UsageError for a policy that is neither, what check_text() and check_protocol() throw, and
/// Interrupted.
std::vector<Curve> curves_of(const Unit& unit, std::span<const Spec> policies,
                             const CurveOptions& options, const Backend& backend);

/// Throws UsageError, which lists the policies with curves, if this one has none.
void check_has_curve(const Spec& policy);

/// Every policy that has a curve, without oracles: at its defaults if it nests there, else with
/// the parameters of PolicyInfo::nests_with.
std::vector<Spec> policies_with_curves();

}  // namespace kvsim
