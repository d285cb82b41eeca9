#include "sim/sweep/job_cost.h"

namespace kvsim {
namespace {

/// Of the full attention of all steps, which the configurations share.
std::int64_t reference_nanoseconds(std::int64_t pairs, const ReplayShape& shape) {
  const auto dims = static_cast<std::int64_t>(shape.head_dim + shape.value_dim);
  return pairs * (4 + dims / 8);
}

}  // namespace

std::int64_t estimated_nanoseconds(const SweepPlan& plan, const SweepJob& job) {
  const ReplayShape shape = replay_shape(plan, job);
  const auto n = static_cast<std::int64_t>(shape.num_tokens);
  const auto group = static_cast<std::int64_t>(shape.group_size);
  const auto held = static_cast<std::int64_t>(shape.held);
  std::int64_t of_unit = 1'000'000 + reference_nanoseconds(group * n * n / 2, shape);
  of_unit += n * held * group;
  if (shape.oracles) of_unit += 100 * n * n;
  return of_unit * static_cast<std::int64_t>(job.units.size());
}

}  // namespace kvsim
