#pragma once

#include <utility>
#include <vector>

#include "sim/core/attention.h"
#include "sim/core/pivotal.h"

namespace kvsim {

/// Persistence of importance (Scissorhands section 3.2) of one query head, for every split of the
/// text into a first part, the tokens and steps before the split, and a second one.
class Persistence {
 public:
  explicit Persistence(int num_tokens, PivotalThreshold threshold = {})
      : threshold_(threshold), tokens_(num_tokens) {}

  /// Of steps that were looked at elsewhere, per token.
  explicit Persistence(std::vector<PivotalSteps> tokens) : tokens_(std::move(tokens)) {}

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
  PivotalThreshold threshold_;
  std::vector<PivotalSteps> tokens_;
};

}  // namespace kvsim
