#include "sim/sweep/attention_spread.h"

#include <algorithm>
#include <cmath>

namespace kvsim {

SpreadOfLast::SpreadOfLast(int steps, int count, std::size_t heads)
    : first_(std::max(0, steps - count)), heads_(heads) {
  for (Moments& head : heads_) {
    head.mean.resize(static_cast<std::size_t>(first_));
    head.squares.resize(static_cast<std::size_t>(first_));
  }
}

void SpreadOfLast::add(std::size_t head, int step, const HeadAttention& attention, int row) {
  if (step < first_) return;
  Moments& moments = heads_[head];
  ++moments.count;
  for (int token = 0; token < first_; ++token) {
    const double weight = attention.weight(row, token) / attention.weight_sum[row];
    entropy_ -= weight * std::log(weight + 1e-10);
    const double change = weight - moments.mean[token];
    moments.mean[token] += change / moments.count;
    moments.squares[token] += change * (weight - moments.mean[token]);
  }
}

AttentionSpread SpreadOfLast::spread() const {
  AttentionSpread found{.entropy = entropy_};
  for (const Moments& head : heads_) {
    if (head.count < 2) continue;
    for (const double squares : head.squares) found.variance += squares / (head.count - 1);
  }
  return found;
}

}  // namespace kvsim
