#pragma once

#include <vector>

#include "sim/core/attention.h"

namespace kvsim {

/// Persistence of importance (Scissorhands section 3.2) of one query head: how many of the tokens
/// before the split that are pivotal after it were pivotal before it too.
class Persistence {
 public:
  /// Tokens and steps before `split` are the first part.
  explicit Persistence(int split) : first_(split), second_(split) {}

  /// Row `row` of the head's block, which is step `step`. Steps may come in any order, each once.
  void add(const HeadAttention& head, int step, int row);

  /// |S_first| / split, S_first being the tokens pivotal at any step before the split.
  double pivotal_share() const;

  /// |S_second and S_first| / |S_second|, S_second being the tokens before the split that are
  /// pivotal at any step after it; 1 if there are none.
  double ratio() const;

 private:
  std::vector<bool> first_;   // per token before the split: pivotal before it
  std::vector<bool> second_;  // pivotal after it
};

}  // namespace kvsim
