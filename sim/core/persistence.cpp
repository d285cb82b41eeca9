#include "sim/core/persistence.h"

#include <algorithm>

namespace kvsim {

void Persistence::add(const HeadAttention& head, int step, int row) {
  const int split = static_cast<int>(first_.size());
  std::vector<bool>& part = step < split ? first_ : second_;
  const float* weight = head.weight.row(row).data();
  for (int token = 0; token < std::min(step + 1, split); ++token) {
    if (is_pivotal(weight[token], head.weight_sum[row], step)) part[token] = true;
  }
}

double Persistence::pivotal_share() const {
  if (first_.empty()) return 0;
  return static_cast<double>(std::count(first_.begin(), first_.end(), true)) /
         static_cast<double>(first_.size());
}

double Persistence::ratio() const {
  int second = 0;
  int both = 0;
  for (std::size_t token = 0; token < first_.size(); ++token) {
    if (!second_[token]) continue;
    ++second;
    both += first_[token];
  }
  return second == 0 ? 1 : static_cast<double>(both) / second;
}

}  // namespace kvsim
