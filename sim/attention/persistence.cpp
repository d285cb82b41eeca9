#include "sim/attention/persistence.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "sim/base/errors.h"

namespace kvsim {

PivotalThreshold PivotalThreshold::parse(std::string_view text, std::string_view what) {
  PivotalThreshold threshold;
  threshold.per_step = text.ends_with("/t");
  const char* end = text.data() + text.size() - (threshold.per_step ? 2 : 0);
  const auto result = std::from_chars(text.data(), end, threshold.value);
  if (result.ec != std::errc() || result.ptr != end || !(threshold.value >= 0) ||
      threshold.value > 1e9) {
    throw UsageError(fmt::format("{}: '{}' is no threshold; write 1/t, 2.5/t or 0.02", what, text));
  }
  return threshold;
}

std::string PivotalThreshold::text() const {
  return fmt::format("{}{}", value, per_step ? "/t" : "");
}

void Persistence::add(const HeadAttention& head, int step, int row,
                      std::span<const std::int32_t> visible) {
  const float* weight = head.weight.row(row).data();
  for (const std::int32_t j : visible) {
    tokens_[j].add(step, threshold_.is_exceeded(weight[j], head.weight_sum[row], step));
  }
}

Persistence::Counts Persistence::at_some_step(int split) const {
  Counts counts;
  for (int j = 0; j < split; ++j) {
    const bool first = tokens_[j].first_pivotal < split;
    const bool second = tokens_[j].last_pivotal >= split;
    counts.first += first;
    counts.second += second;
    counts.both += first && second;
  }
  return counts;
}

Persistence::Counts Persistence::at_every_step(int split) const {
  Counts counts;
  for (int j = 0; j < split; ++j) {
    const PivotalSteps& token = tokens_[j];
    const bool first = token.first_pivotal < split && token.first_not_pivotal >= split;
    const bool second = token.last_pivotal >= split && token.last_not_pivotal < split;
    counts.first += first;
    counts.second += second;
    counts.both += first && second;
  }
  return counts;
}

}  // namespace kvsim
