#pragma once

#include <vector>

#include "sim/attention/future_attention.h"

namespace kvsim {

/// The attention matrix by token, where StepRows has it by step. Takes 2 n (n + 1) bytes.
class AttentionColumns {
 public:
  explicit AttentionColumns(const StepRows& rows);

  int num_tokens() const { return num_tokens_; }

  /// What `token` receives at `step`, which is its own or a later one, and at the steps after it: 0
  /// where they are not measured. kPadding more numbers may be read, whatever they are.
  const float* from(int token, int step) const { return values_.data() + offset(token, step); }

  static constexpr int kPadding = 32;

 private:
  // Columns one after the other, each from the step of its token on.
  std::size_t offset(int token, int step) const {
    const auto j = static_cast<std::size_t>(token);
    const auto n = static_cast<std::size_t>(num_tokens_);
    return j * n - j * (j + 1) / 2 + static_cast<std::size_t>(step);
  }

  int num_tokens_;
  std::vector<float> values_;
};

}  // namespace kvsim
