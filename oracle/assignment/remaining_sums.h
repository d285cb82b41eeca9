#pragma once

#include <vector>

#include "sim/attention/step_rows.h"
#include "sim/protocol/page_steps.h"

namespace kvsim {

/// Per step t and token j, the sum of row[s,j] over the measured steps s > t, which never increases
/// with t: of attention, what j still receives; of losses, L(j,t), what evicting j after t costs.
/// Takes 2 n (n + 1) bytes.
class RemainingSums {
 public:
  explicit RemainingSums(const StepRows& rows);

  /// Of pages, where row q is of the step that evicts once page q has begun: their tokens' sums.
  RemainingSums(const RemainingSums& of_tokens, const PageSteps& pages);

  /// Of step t, for j = 0 .. t.
  const float* row(int step) const { return sums_.data() + offset(step); }

 private:
  static std::size_t offset(int step) {
    return static_cast<std::size_t>(step) * (static_cast<std::size_t>(step) + 1) / 2;
  }

  std::vector<float> sums_;  // row after row
};

}  // namespace kvsim
