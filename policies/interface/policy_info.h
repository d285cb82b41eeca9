#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policies/interface/estimator.h"
#include "policies/interface/policy.h"
#include "policies/interface/rotation.h"
#include "policies/interface/unit_sizes.h"
#include "policies/parameters/params.h"

namespace kvsim {

class Planner;  // sim/replay/planner.h
struct Scorer;  // policies/learned/scorer.h

/// What a policy knows of the replay for which it is made.
struct Context {
  int budget = 1;          ///< B, in tokens; of an estimator: vectors, without those protected
  std::uint64_t seed = 0;  ///< from the user's seed and the unit's coordinates

  /// For a policy that follows a schedule: per token, the step after which it is evicted.
  std::span<const std::int32_t> schedule = {};

  /// For a policy that reads scores: one per token, of the prompt alone with Rules::prompt_only.
  std::span<const float> file_scores = {};

  /// For a policy that reads trained scorers: those of its file. Null: it is not read yet, and the
  /// policy never runs.
  std::shared_ptr<const Scorer> scorer = {};

  int layer = 0;  ///< of the unit, in the model
  int kv_head = 0;
  std::string unit = {};  ///< whose replay it is, in words for errors; empty: none

  float scale = 1;                          ///< logit = scale * <query, key>
  std::optional<float> logit_softcap = {};  ///< logit becomes cap * tanh(logit / cap)
  std::optional<int> sliding_window = {};   ///< token j is visible at step t while t - j < window
  std::optional<int> attention_chunk = {};  ///< and while floor(j / chunk) = floor(t / chunk)
  std::vector<float> sink_logit = {};     ///< of each query head: a logit without a value; or empty
  std::optional<Rotation> rotation = {};  ///< if the trace has it; rules may ask for it

  /// W_O of each query head, [value_dim, hidden] row by row; empty: not recorded.
  std::vector<std::span<const float>> output_projection = {};
};

/// Parameters as a paper or a program sets them: `POLICY:preset=NAME`.
struct Preset {
  std::string name;
  std::string settings;    ///< "key=value,key=value"; empty: the defaults
  std::string reproduces;  ///< whose variant this is, and which of its features are not reproduced
  bool acausal = false;  ///< it needs later steps: help lists it, a spec that names it is an error
};

/// What a trace must hold in addition to queries, keys and values.
struct TraceNeeds {
  bool answer_spans = false;       ///< a span labelled `answer` in every sequence
  bool output_projection = false;  ///< W_O of the layer
  bool output_score_grad = false;  ///< gradients with respect to the head outputs

  bool operator==(const TraceNeeds&) const = default;
};

/// PolicyInfo::nests of a policy whose caches nest with any parameters.
inline bool always_nests(const Params&) { return true; }

/// PolicyInfo::plans_pages of an oracle that plans them with any parameters.
inline bool always_plans_pages(const Params&) { return true; }

/// Estimates the time of a policy on a unit, whose cache holds at most `held` tokens, in
/// nanoseconds of one core: sim/sweep/shards/README.md. Whole numbers, for every machine to
/// estimate alike.
using TimeEstimate = std::int64_t (*)(const Params& params, const UnitSizes& unit,
                                      std::int64_t held);

/// Everything the program knows about a policy: help, parsing, tests and policies/README.md's table
/// are derived from it. Exactly one of `make` and `make_estimator` is set.
struct PolicyInfo {
  std::string name;
  std::string keeps;        ///< what stays in the cache, in one line
  std::string source;       ///< paper and section
  std::string sees;         ///< which data of a step it reads
  std::string differences;  ///< known differences from the paper or its code; may be empty
  std::vector<Param> params;
  std::vector<Preset> presets = {};
  bool follows_schedule = false;  ///< its parameter `file` says where Context::schedule comes from
  bool reads_scores = false;      ///< the same of Context::file_scores
  bool reads_scorer = false;      ///< the same of Context::scorer

  /// It scores only what exceeds a budget: without one it cannot be asked (+threshold).
  bool needs_budget = false;

  /// Whether its caches nest: at every step the tokens kept at one budget are a subset of those
  /// kept at any larger budget, without exception for rounding. Mattson, Gecsei, Slutz and Traiger,
  /// "Evaluation techniques for storage hierarchies", IBM Systems Journal 9(2), 1970, call this
  /// inclusion. Caches nest if neither the scores nor the number of protected tokens depend on the
  /// budget or on what the cache holds. Null: no.
  std::function<bool(const Params& params)> nests = nullptr;
  std::string nests_with = {};  ///< settings with which its caches nest, if the defaults do not

  /// Set for an oracle: makes the planner of the schedule that the policy of `make` follows.
  std::unique_ptr<Planner> (*make_planner)(const Params& params) = nullptr;
  /// Whether no policy can retain more attention at the same budget. Null: no.
  bool (*bounds_recall)(const Params& params) = nullptr;
  /// Whether its planner finds the plans of all budgets in about the time of one. Null: no.
  bool (*plans_every_budget)(const Params& params) = nullptr;
  /// Whether its planner plans the evictions of whole pages, where the protocol has them. Null: no.
  bool (*plans_pages)(const Params& params) = nullptr;
  /// Whether its planner plans for heads that share a cache (Planner::plan_shared()).
  bool plans_shared = false;
  /// Its planner solves an auction per budget for texts of at least this many tokens, which takes
  /// less time than its other way. Empty: it has no auction.
  std::optional<int> auction_from = {};

  // The time that it takes in addition to what follows from its rules; null: none. A sweep is
  // partitioned by these estimates.
  TimeEstimate scoring_cost = nullptr;   ///< of comparing vectors at every step
  TimeEstimate planning_cost = nullptr;  ///< of an oracle's plan for one budget
  /// Of the plans for all budgets together, without auctions; `held` is the smallest budget.
  TimeEstimate joint_planning_cost = nullptr;

  /// What it needs of a trace. Null: nothing.
  TraceNeeds (*needs)(const Params& params) = nullptr;

  std::function<std::unique_ptr<Policy>(const Params& params, const Context& context)> make =
      nullptr;
  std::function<std::unique_ptr<Estimator>(const Params& params, const Context& context)>
      make_estimator = nullptr;

  /// A digest of the code of these functions, which the registry fills in: a row that other code
  /// made is not reused.
  std::string code = {};

  /// Where it comes from, if it was registered when the program ran: a file, or "Python". Empty: it
  /// is built in.
  std::string origin = {};

  /// Its place among the colours of figures, which the registry fills in: of the policies that
  /// compete or, for a reference, of those. Empty: it was registered when the program ran.
  std::optional<int> color_place = {};

  /// Whether it has the parameters `file` and `sha256`, the first of which must be set.
  bool reads_file() const { return follows_schedule || reads_scores || reads_scorer; }

  /// Whether policies are measured by it: an oracle, or one that keeps the most attention.
  bool is_reference() const { return make_planner != nullptr || bounds_recall != nullptr; }
};

template <class P>
std::unique_ptr<Policy> make_policy(const Params& params, const Context& context) {
  return std::make_unique<P>(params, context);
}

template <class E>
std::unique_ptr<Estimator> make_estimator(const Params& params, const Context& context) {
  return std::make_unique<E>(params, context);
}

/// A change to the rules of any policy, written after the policy: `POLICY+NAME:key=value`.
struct CombinatorInfo {
  std::string name;
  std::string does;         ///< in one line
  std::string source;       ///< paper and section
  std::string differences;  ///< known differences from the paper; may be empty
  std::vector<Param> params;
  void (*change)(Rules& rules, const Params& params, const Context& context);

  /// Whether one token of the budget is an entry of the combinator's own: the policy has the
  /// others.
  bool adds_entry = false;
  /// Why it cannot change this policy, whose rules all other combinators have changed; empty: it
  /// can. Null: it can change any.
  std::string (*why_not)(const PolicyInfo& policy, const Rules& rules,
                         const Params& params) = nullptr;

  /// Puts a policy around the one that `rules` are of, all combinators considered, to change its
  /// scores; null: they stay. `change` then leaves out Rules::score, which engines compute without
  /// it.
  std::unique_ptr<Policy> (*wrap)(std::unique_ptr<Policy> policy, const Rules& rules,
                                  const Params& params, const Context& context) = nullptr;

  TraceNeeds needs = {};  ///< what it needs of a trace

  std::string code = {};  ///< as PolicyInfo::code
};

/// The policy that follows Context::schedule.
std::unique_ptr<Policy> make_scheduled(const Params& params, const Context& context);

}  // namespace kvsim
