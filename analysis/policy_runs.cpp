#include "analysis/policy_runs.h"

#include <algorithm>

namespace kvsim {

std::vector<ColumnSchema> with_run_columns(std::vector<ColumnSchema> own) {
  std::vector<ColumnSchema> columns{
      text_column("policy", "canonical spec").key(),
      integer_column("budget", "tokens per KV head, as in the table replay").key(),
      text_column("mode", "stream or prefill").key(),
      integer_column("seed", "of the policy's and the analysis' random choices").key()};
  columns.insert(columns.end(), own.begin(), own.end());
  return columns;
}

std::vector<Value> with_run_values(const Subject& subject, const PolicyRun& run,
                                   std::vector<Value> own) {
  std::vector<Value> values{run.policy.text(), std::int64_t{run.budget}, subject.protocol.name(),
                            subject.seed};
  values.insert(values.end(), own.begin(), own.end());
  return values;
}

bool evicts_exactly(const Spec& policy) {
  const Rules rules = policy.rules({});
  return !policy.is_estimator() && rules.is_exact() && !rules.selects;
}

bool attends_to(const PolicyRun& run, int token, int step) {
  const Trajectory& trajectory = run.trajectory;
  if (trajectory.selected_begin.empty()) return is_attended(run, token, step);
  const auto selected = trajectory.selected.begin();
  const auto last = selected + trajectory.selected_begin[step + 1];
  return std::find(selected + trajectory.selected_begin[step], last, token) != last;
}

}  // namespace kvsim
