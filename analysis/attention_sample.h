#pragma once

#include <vector>

#include "analysis/row_analysis.h"

namespace kvsim {

/// A sample of beta_{t,j} of Scissorhands Theorem 4.1, per query head: the attention of step t over
/// the tokens before it alone, times their number, so that steps of all lengths have the same mean,
/// 1, and are samples of one distribution as the theorem assumes. Every entry is as likely to be in
/// it as any other, and which ones are depends on the seed, the unit and the entry alone.
class AttentionSample {
 public:
  /// About `size` entries per head, of steps `first_step` (at least 1) and later.
  AttentionSample(const Subject& subject, int size, int first_step);

  void add(const AttentionRow& row);

  const std::vector<double>& of_head(int head) const { return heads_[head]; }

 private:
  std::uint64_t seed_;
  int first_step_;
  double rate_;  // share of the entries
  std::vector<std::vector<double>> heads_;
};

/// Sum of exp(l[t,j] - max_j l[t,j]) over the visible tokens j < t.
double weight_before(const AttentionRow& row);

}  // namespace kvsim
