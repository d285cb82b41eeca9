#include "oracle/assignment/remaining_sums.h"

#include <algorithm>
#include <numeric>

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

RemainingSums::RemainingSums(const RemainingSums& of_tokens, const PageSteps& pages)
    : sums_(offset(pages.steps().num_tokens())) {
  const int size = pages.page_size();
  for (int begun = 0; begun < pages.steps().num_tokens(); ++begun) {
    poll_interrupt();
    const int step = pages.eviction_step(begun);
    const float* tokens = of_tokens.row(step);
    for (int page = 0; page <= begun; ++page) {
      const float* first = tokens + page * size;
      const float* last = tokens + std::min(step + 1, (page + 1) * size);
      sums_[offset(begun) + page] = static_cast<float>(std::accumulate(first, last, 0.0));
    }
  }
}

}  // namespace kvsim
