#include "oracle/attention_columns.h"

#include <algorithm>

#include "sim/base/interrupt.h"

namespace kvsim {
namespace {

// Steps that are turned together, so that what is read and what is written stay in the cache.
constexpr int kSteps = 64;
constexpr int kTokens = 16;

}  // namespace

AttentionColumns::AttentionColumns(const StepRows& rows)
    : num_tokens_(rows.num_tokens()), values_(offset(num_tokens_, num_tokens_) + kPadding) {
  for (int first = rows.first_measured(); first < num_tokens_; first += kSteps) {
    poll_interrupt();
    const int end = std::min(first + kSteps, num_tokens_);
    for (int left = 0; left < end; left += kTokens) {
      for (int step = std::max(first, left); step < end; ++step) {
        const float* row = rows.row(step).data();
        const int right = std::min(left + kTokens, step + 1);
        for (int token = left; token < right; ++token) values_[offset(token, step)] = row[token];
      }
    }
  }
}

}  // namespace kvsim
