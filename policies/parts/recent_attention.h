#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace kvsim {

/// The sum of the attention that each token received in the last steps, by text position.
class RecentAttention {
 public:
  /// Sums over the last `steps` steps, 1 or more.
  explicit RecentAttention(int steps) : steps_(static_cast<std::size_t>(steps)) {}

  /// What it holds per token of a step.
  static constexpr std::size_t kBytesPerToken = sizeof(std::int32_t) + sizeof(float);

  /// A step's attention to `tokens`, which ascend, parallel to them.
  void add(std::span<const std::int32_t> tokens, std::span<const float> attention) {
    rows_.push_back({{tokens.begin(), tokens.end()}, {attention.begin(), attention.end()}});
    sums_.resize(static_cast<std::size_t>(tokens.back()) + 1, 0);
    add(rows_.back(), 1);
    if (rows_.size() > steps_) {
      add(rows_.front(), -1);
      rows_.pop_front();
    }
  }

  double of(std::int32_t token) const { return sums_[static_cast<std::size_t>(token)]; }

 private:
  struct Row {
    std::vector<std::int32_t> tokens;
    std::vector<float> attention;
  };

  void add(const Row& row, int sign) {
    for (std::size_t i = 0; i < row.tokens.size(); ++i) {
      sums_[static_cast<std::size_t>(row.tokens[i])] += sign * row.attention[i];
    }
  }

  std::size_t steps_;
  std::deque<Row> rows_;      // of the last steps
  std::vector<double> sums_;  // of `rows_`, by text position
};

}  // namespace kvsim
