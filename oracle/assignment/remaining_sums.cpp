#include "oracle/assignment/remaining_sums.h"

#include <algorithm>

#include "sim/base/interrupt.h"

namespace kvsim {

RemainingSums::RemainingSums(const StepRows& rows)
    : sums_(rows.remaining().begin(), rows.remaining().end()) {
  if (!sums_.empty()) return;
  sums_.resize(offset(rows.num_tokens()));
  std::vector<double> later(rows.num_tokens(), 0);
  for (int step = rows.num_tokens() - 1; step >= 0; --step) {
    poll_interrupt();
    std::copy(later.begin(), later.begin() + step + 1, sums_.begin() + offset(step));
    if (step < rows.first_measured()) continue;
    const std::span<const float> row = rows.row(step);
    for (int token = 0; token <= step; ++token) later[token] += row[token];
  }
}

}  // namespace kvsim
