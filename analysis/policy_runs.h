#pragma once

#include <vector>

#include "analysis/analysis.h"

namespace kvsim {

/// The columns of a table about replays: the keys policy, budget, mode and seed, then `own`.
std::vector<ColumnSchema> with_run_columns(std::vector<ColumnSchema> own);

/// The values of with_run_columns() for one replay: those of its keys, then `own`.
std::vector<Value> with_run_values(const Subject& subject, const PolicyRun& run,
                                   std::vector<Value> own);

/// Whether the policy evicts tokens and attends to the others as recorded, so that evicted_after
/// describes its replay completely.
bool evicts_exactly(const Spec& policy);

/// Whether the token is in A_t, the tokens that step `step` attends to.
inline bool is_attended(const PolicyRun& run, int token, int step) {
  return token <= step && run.trajectory.evicted_after[token] >= step;
}

/// Whether the token is in the cache after step `step`.
inline bool is_kept(const PolicyRun& run, int token, int step) {
  return token <= step && run.trajectory.evicted_after[token] > step;
}

/// Whether step `step`, a measured one, attends to the token: of a policy that selects, what it
/// selected; of an estimator, whether it has the token's value.
bool attends_to(const PolicyRun& run, int token, int step);

}  // namespace kvsim
