#include "analysis/attention_sample.h"

#include <algorithm>
#include <span>

#include "traces/unit_seed.h"

namespace kvsim {
AttentionSample::AttentionSample(const Subject& subject, int size, int first_step)
    : seed_(random_bits(unit_seed(static_cast<std::uint64_t>(subject.seed), subject.unit.name),
                        "attention sample")),
      first_step_(std::max(1, first_step)),
      heads_(subject.unit.query.size()) {
  double entries = 0;
  for (int step = first_step_; step < subject.unit.num_tokens(); ++step) {
    entries += num_visible(subject.unit, step) - is_visible(subject.unit, step, step);
  }
  rate_ = entries == 0 ? 0 : std::min(1.0, size / entries);
}

void AttentionSample::add(const AttentionRow& row) {
  if (row.step < first_step_) return;
  const double sum = weight_before(row);
  if (sum == 0) return;  // token t, or a sink, has all of the attention
  const std::uint64_t of_row = random_bits(random_bits(seed_, static_cast<std::uint64_t>(row.head)),
                                           static_cast<std::uint64_t>(row.step));
  std::span<const std::int32_t> before = row.visible;
  if (!before.empty() && before.back() == row.step) before = before.first(before.size() - 1);
  for (const std::int32_t j : before) {
    const std::uint64_t bits = random_bits(of_row, static_cast<std::uint64_t>(j));
    if (static_cast<double>(bits) >= rate_ * 0x1p64) continue;
    heads_[row.head].push_back(row.weight()[j] / sum * static_cast<double>(before.size()));
  }
}

double weight_before(const AttentionRow& row) {
  double sum = 0;
  for (int j = row.first_visible; j < row.step; ++j) sum += row.weight()[j];
  return sum;
}

}  // namespace kvsim
