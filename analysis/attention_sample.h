#pragma once

#include <vector>

#include "analysis/row_analysis.h"

namespace kvsim {

/// A sample of beta_{t,j} of Scissorhands Theorem 4.1, per query head: the softmax of step t over
/// the visible tokens j < t, times their number, so that every step has the mean 1 and, as the
/// theorem assumes, all steps sample one distribution. Each entry (t, j) is drawn with the same
/// probability, by a choice that depends only on the seed, the unit and the entry.
class AttentionSample {
 public:
  /// About `size` entries per head, from steps t >= first_step (at least 1).
  AttentionSample(const Subject& subject, int size, int first_step);

  void add(const AttentionRow& row);

  const std::vector<double>& of_head(int head) const { return heads_[head]; }

 private:
  std::uint64_t seed_;
  int first_step_;
  std::uint64_t limit_;  // an entry is drawn if its random bits are below
  std::vector<std::vector<double>> heads_;
};

/// Sum of exp(l[t,j] - max_j l[t,j]) over the visible tokens j < t.
double weight_before(const AttentionRow& row);

}  // namespace kvsim
