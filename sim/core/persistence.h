#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/attention.h"

namespace kvsim {

/// The attention above which a token is pivotal at step t (Scissorhands' alpha): `value / (t + 1)`
/// or, if not `per_step`, `value` itself.
struct PivotalThreshold {
  double value = 1;
  bool per_step = true;

  /// "1/t", "2.5/t" or "0.02". Throws UsageError, starting with `what`, for anything else.
  static PivotalThreshold parse(std::string_view text, std::string_view what);
  std::string text() const;

  /// Whether attention weight / weight_sum exceeds it.
  bool is_exceeded(float weight, double weight_sum, int step) const {
    return static_cast<double>(weight) * (per_step ? step + 1 : 1) > value * weight_sum;
  }
};

/// Persistence of importance (Scissorhands section 3.2) of one query head, for every split of the
/// text into a first part, the tokens and steps before the split, and a second one.
class Persistence {
 public:
  explicit Persistence(int num_tokens, PivotalThreshold threshold = {})
      : threshold_(threshold), tokens_(num_tokens) {}

  /// Row `row` of the head's block, which is step `step`; tokens before `first_visible` are outside
  /// the sliding window. Steps come in order.
  void add(const HeadAttention& head, int step, int row, int first_visible);

  /// How many of the tokens before a split are pivotal in the first part, in the second, in both.
  struct Counts {
    int first = 0;
    int second = 0;
    int both = 0;

    /// The paper's |S_first| / split; 0 for an empty first part.
    double pivotal_share(int split) const {
      return split == 0 ? 0 : static_cast<double>(first) / split;
    }
    /// The paper's persistence ratio; 1 if nothing is pivotal in the second part.
    double ratio() const { return second == 0 ? 1 : static_cast<double>(both) / second; }
  };

  /// Pivotal in a part: at some step of it, the union of the paper's formula.
  Counts at_some_step(int split) const;

  /// Pivotal in a part: at every step of it, as the paper's text has it ("from every position"),
  /// at which the token is visible, its own included. Step 0 does not count: its only attention is
  /// 1 = 1/1.
  Counts at_every_step(int split) const;

 private:
  static constexpr int kNever = std::numeric_limits<int>::max();

  // When a token was pivotal and when it was visible without being so.
  struct Token {
    int first_pivotal = kNever;
    int last_pivotal = -1;
    int first_other = kNever;
    int last_other = -1;
  };

  PivotalThreshold threshold_;
  std::vector<Token> tokens_;
};

}  // namespace kvsim
