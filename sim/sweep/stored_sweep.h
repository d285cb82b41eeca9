#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/results/run.h"
#include "sim/results/store.h"
#include "sim/sweep/sweep_plan.h"

namespace kvsim {

/// What the table `run` says of a command that runs this plan.
RunLabels labels_of(const SweepPlan& plan, std::string command, std::string device);

/// Prepares a sweep into `store`: removes from the plan what the store holds already, unless
/// `force`; gives the rows there the plan's labels; begins a run if there is something to write,
/// and for every shard, as its run says that it was done.
/// Returns how many rows of another code are made again, by the name of the policy. Throws
/// DataError if the file cannot hold rows without a reference and the plan makes some.
std::map<std::string, std::size_t> begin_sweep(SweepPlan& plan, ResultStore& store,
                                               const RunLabels& labels, bool force);

/// "2 rows of another code of h2o, tova are made again"; empty if there are none.
std::string note_of_another_code(const std::map<std::string, std::size_t>& rows);

/// Stores the rows of one unit, unless one of them or of its earlier rows exceeds a bound
/// (BoundExceeded). Earlier rows of another code, and those that are replaced, say nothing about
/// these.
void store_unit(const std::vector<Outcome>& outcomes, ResultSink& sink);

/// The same for several units, in one transaction. Units that fail the check are not stored; throws
/// what the first of them threw once the others are.
void store_units(const std::vector<std::vector<Outcome>>& units, ResultSink& sink);

/// The rows of all replays of the plan that the store holds, ordered by key.
std::vector<Result> rows_of_sweep(const SweepPlan& plan, const ResultStore& store);

}  // namespace kvsim
