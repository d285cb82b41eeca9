#pragma once

#include <limits>
#include <string>
#include <string_view>

namespace kvsim {

/// Whether a token is pivotal at a step: weight / weight_sum > 1 / (step + 1) (Scissorhands section
/// 3.2 with alpha = 1/t).
constexpr bool is_pivotal(float weight, double weight_sum, int step) {
  return static_cast<double>(weight) * (step + 1) > weight_sum;
}

/// The attention above which a token is pivotal at step t (alpha in Scissorhands): `value / (t +
/// 1)` if `per_step`, else `value`.
struct PivotalThreshold {
  double value = 1;
  bool per_step = true;

  /// Parses "1/t", "2.5/t" or "0.02". Throws UsageError, prefixed with `what`, for anything else.
  static PivotalThreshold parse(std::string_view text, std::string_view what);
  std::string text() const;

  /// Whether weight / weight_sum exceeds the threshold.
  constexpr bool is_exceeded(float weight, double weight_sum, int step) const {
    return static_cast<double>(weight) * (per_step ? step + 1 : 1) > value * weight_sum;
  }
};

/// The first and last steps at which a token is pivotal, and at which it is visible but not
/// pivotal.
struct PivotalSteps {
  static constexpr int kNever = std::numeric_limits<int>::max();

  int first_pivotal = kNever;
  int last_pivotal = -1;
  int first_not_pivotal = kNever;
  int last_not_pivotal = -1;

  /// Adds a step at which the token is visible. Call in the order of the steps. Step 0 never counts
  /// as not pivotal: its only attention is 1 = 1/1.
  constexpr void add(int step, bool is_pivotal) {
    if (is_pivotal) {
      if (first_pivotal == kNever) first_pivotal = step;
      last_pivotal = step;
    } else if (step > 0) {
      if (first_not_pivotal == kNever) first_not_pivotal = step;
      last_not_pivotal = step;
    }
  }
};

}  // namespace kvsim
