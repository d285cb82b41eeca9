#pragma once

#include <span>
#include <vector>

#include "gpu/kernels/batch.h"

namespace kvsim::gpu {

/// Which replays of a batch replay_steps() takes together: those with caches of about one size, so
/// that a large cache does not take on-chip memory and threads from small ones.
class ReplayGroups {
 public:
  ReplayGroups(const Shape& shape, std::span<const ReplayTask> tasks);

  /// Batch::replay_order, at most twice as many entries as there are replays.
  const std::vector<std::int32_t>& order() const { return order_; }

  /// The replays that go through a prompt for others, in blocks that end before it does.
  const ReplayGroup& through_prompt() const { return through_prompt_; }

  /// The groups of any other block of steps.
  std::vector<ReplayGroup> of_block(int first_step, int num_steps) const;

 private:
  Shape shape_;
  std::vector<std::int32_t> order_;  // by slots; then those that go through the prompt
  std::vector<ReplayGroup> by_slots_;
  ReplayGroup through_prompt_;
};

/// Fills in ReplayTask::prompt_of: of each unit, the first replay with the same rule and, of the
/// kind `newest`, the same scores. `arrival_scores` is [arrival_row, num_tokens]; the tasks of a
/// unit follow each other.
void share_prompts(const Shape& shape, std::span<const double> arrival_scores,
                   std::span<ReplayTask> tasks);

}  // namespace kvsim::gpu
