#pragma once

#include <limits>
#include <string>
#include <string_view>

namespace kvsim {

/// Whether attention weight / weight_sum at this step exceeds 1 / (step + 1): the token is pivotal
/// (Scissorhands section 3.2 with alpha = 1/t).
constexpr bool is_pivotal(float weight, double weight_sum, int step) {
  return static_cast<double>(weight) * (step + 1) > weight_sum;
}

/// The attention above which a token is pivotal at step t (Scissorhands' alpha): `value / (t + 1)`
/// or, if not `per_step`, `value` itself.
struct PivotalThreshold {
  double value = 1;
  bool per_step = true;

  /// "1/t", "2.5/t" or "0.02". Throws UsageError, starting with `what`, for anything else.
  static PivotalThreshold parse(std::string_view text, std::string_view what);
  std::string text() const;

  /// Whether attention weight / weight_sum exceeds it.
  constexpr bool is_exceeded(float weight, double weight_sum, int step) const {
    return static_cast<double>(weight) * (per_step ? step + 1 : 1) > value * weight_sum;
  }
};

/// When a token was pivotal and when it was visible without being so.
struct PivotalSteps {
  static constexpr int kNever = std::numeric_limits<int>::max();

  int first_pivotal = kNever;
  int last_pivotal = -1;
  int first_other = kNever;
  int last_other = -1;

  /// A later step than all before at which the token is visible. Step 0 does not count against it:
  /// its only attention is 1 = 1/1.
  constexpr void add(int step, bool is_pivotal) {
    if (is_pivotal) {
      if (first_pivotal == kNever) first_pivotal = step;
      last_pivotal = step;
    } else if (step > 0) {
      if (first_other == kNever) first_other = step;
      last_other = step;
    }
  }
};

}  // namespace kvsim
