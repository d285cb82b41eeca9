#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "policies/registry/spec.h"
#include "sim/base/amount.h"
#include "sim/replay/replay.h"
#include "sim/results/store.h"
#include "sim/sweep/selection.h"
#include "sim/sweep/shards/shard.h"

namespace kvsim {

/// Policies times budgets over the selected units of some traces. `kvsim replay` is a sweep of one
/// policy and one budget.
struct SweepRequest {
  std::vector<std::filesystem::path> traces;
  std::vector<Trace> open_traces = {};  ///< further ones, in a file or in memory
  std::vector<Spec> policies;
  std::vector<Amount> budgets;  ///< shares are of the sequence in stream mode, else of the prompt;
                                ///< sizes are of a KV head's cache
  Selection selection;
  Protocol protocol = {};
  std::int64_t seed = 0;
  int threads = 1;
  bool selections = false;  ///< see ReplayOptions
  bool trajectories = false;
  Shard shard = {};  ///< of the jobs, see keep_shard()
};

/// One policy at one budget.
struct PlannedReplay {
  std::size_t policy = 0;  ///< index into the request's policies
  int budget = 1;
  std::string budget_request;  ///< the budget as written by the user

  /// The policy's rules at this budget, which all replays of both share.
  std::shared_ptr<const Rules> rules;
};

/// Budgets in tokens (of estimators: vectors), [amount][policy] of a request.
using BudgetTable = std::vector<std::vector<int>>;

/// One unit and its replays. Amounts that come to the same budget of a policy are replayed once.
struct PlannedUnit {
  std::size_t trace = 0;  ///< index into the plan's traces
  SelectedUnit unit;
  std::shared_ptr<const BudgetTable> budgets;  ///< what the request's come to
  bool in_whole_layer = false;                 ///< its layer has rows in the table `layer_error`
  std::vector<PlannedReplay> replays;          ///< all that the request asks for
  std::vector<PlannedReplay> remaining;        ///< those that are not in the result file
};

/// A request with open traces and the replays of every selected unit.
struct SweepPlan {
  SweepRequest request;
  std::vector<Trace> traces;
  std::vector<PlannedUnit> units;

  /// Layers that have what the table `layer_error` needs, but not all heads.
  std::size_t num_cut_layers = 0;

  /// What all shards of one command have in common, 16 hexadecimal digits; empty without shards.
  std::string study;
  WholeWork whole_work;  ///< of all shards

  std::size_t num_replays() const;
  std::size_t num_remaining() const;

  /// The column `mode` of its rows.
  std::string mode() const { return request.protocol.name(); }

  /// What the request's budget number `amount` comes to for its policy number `policy`.
  static int budget_of(const PlannedUnit& unit, std::size_t amount, std::size_t policy) {
    return (*unit.budgets)[amount][policy];
  }

  const Spec& policy_of(const PlannedReplay& replay) const {
    return request.policies[replay.policy];
  }
};

/// Opens the traces of `request` that are named: `traces` is empty afterwards.
void open_traces(SweepRequest& request);

/// Throws UsageError if the options of `request` rule `policy` out: a split of layers over heads
/// where these share a cache, `duo` for an estimator, and what check_protocol() refuses.
void check_policy(const Spec& policy, const SweepRequest& request);

/// Opens the traces and lists the replays, those of the request's shard. A trace that is named
/// twice is replayed once. Throws
/// UsageError for a request without a policy or a budget, for a selection that is not in the trace,
/// and for what check_policy(), check_text(), check_estimator() and check_duo() refuse;
/// DataError for a trace without the rotation that `positions=slot` needs or what check_needs()
/// demands, for a file whose SHA-256 differs from the spec's, a schedule file that has none
/// for a budget, a file of scores that lacks a unit, and for a file of budgets that SplitTables or
/// fitted() refuse.
SweepPlan plan_sweep(SweepRequest request);

/// Removes from `remaining` the replays whose rows are in `store`. Rows of another policy_code are
/// to be made again: returns how many there are, by the name of the policy.
std::map<std::string, std::size_t> skip_finished(SweepPlan& plan, const ResultStore& store);

/// Gives the rows in `store` the labels of the plan's policies, where they have one. Returns
/// whether a row had another one.
bool update_labels(const SweepPlan& plan, ResultStore& store);

/// Fills in the key of a row.
void set_key(const SweepPlan& plan, const PlannedUnit& unit, const PlannedReplay& replay,
             Result& result);

/// Fills in the columns of a row that are known before the replay: all but the measurements and the
/// device.
void describe(const SweepPlan& plan, const PlannedUnit& unit, const PlannedReplay& replay,
              Result& result);

}  // namespace kvsim
