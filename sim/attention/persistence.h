#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/attention/attention.h"
#include "sim/attention/pivotal.h"

namespace kvsim {

/// Persistence of importance (Scissorhands section 3.2) of one query head, for every split of the
/// text into a first part (the steps before the split) and a second part.
class Persistence {
 public:
  explicit Persistence(int num_tokens, PivotalThreshold threshold = {})
      : threshold_(threshold), tokens_(num_tokens) {}

  /// From the pivotal steps of each token.
  explicit Persistence(std::vector<PivotalSteps> tokens) : tokens_(std::move(tokens)) {}

  /// Adds step `step`, which is row `row` of the head's block and sees `visible`. Call in the order
  /// of the steps.
  void add(const HeadAttention& head, int step, int row, std::span<const std::int32_t> visible);

  /// Numbers of tokens before a split that are pivotal in the first part, the second, both.
  struct Counts {
    int first = 0;
    int second = 0;
    int both = 0;

    /// The paper's |S_first| / split; 0 if the first part is empty.
    double pivotal_share(int split) const {
      return split == 0 ? 0 : static_cast<double>(first) / split;
    }
    /// The paper's persistence ratio; 1 if nothing is pivotal in the second part.
    double ratio() const { return second == 0 ? 1 : static_cast<double>(both) / second; }
  };

  /// Pivotal in a part means at some step of it: the union in the paper's formula.
  Counts at_some_step(int split) const;

  /// Pivotal in a part means at every step of it at which the token is visible, as the paper's text
  /// has it ("from every position"). Step 0 does not count: its only attention is 1 = 1/1.
  Counts at_every_step(int split) const;

 private:
  PivotalThreshold threshold_;
  std::vector<PivotalSteps> tokens_;
};

}  // namespace kvsim
