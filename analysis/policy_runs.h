#pragma once

#include <vector>

#include "analysis/analysis.h"

namespace kvsim {

/// The key columns of a table about replays, policy, budget, mode and seed, before its own.
std::vector<ColumnSchema> with_run_columns(std::vector<ColumnSchema> own);

/// The values of those columns, before the others.
std::vector<Value> with_run_values(const Subject& subject, const PolicyRun& run,
                                   std::vector<Value> own);

/// Whether the policy evicts recorded tokens and attends to the rest as recorded, so that its
/// schedule says all.
bool evicts_exactly(const Spec& policy);

/// Whether the token is in A_t, the tokens that step `step` attends to.
inline bool is_attended(const PolicyRun& run, int token, int step) {
  return token <= step && run.trajectory.evicted_after[token] >= step;
}

/// Whether it is still there after the step.
inline bool is_kept(const PolicyRun& run, int token, int step) {
  return token <= step && run.trajectory.evicted_after[token] > step;
}

}  // namespace kvsim
