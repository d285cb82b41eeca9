#include "oracle/remaining_attention.h"

#include <algorithm>

namespace kvsim {

RemainingAttention::RemainingAttention(const FutureAttention& attention)
    : sums_(attention.remaining().begin(), attention.remaining().end()) {
  if (!sums_.empty()) return;
  sums_.resize(offset(attention.num_tokens()));
  std::vector<double> later(attention.num_tokens(), 0);
  for (int step = attention.num_tokens() - 1; step >= 0; --step) {
    std::copy(later.begin(), later.begin() + step + 1, sums_.begin() + offset(step));
    if (step < attention.first_measured()) continue;
    const std::span<const float> row = attention.row(step);
    for (int token = 0; token <= step; ++token) later[token] += row[token];
  }
}

}  // namespace kvsim
