#pragma once

#include <cstddef>
#include <vector>

#include "sim/attention/attention.h"

namespace kvsim {

/// How the attention of a text's last w steps to the tokens before them is spread (CAKE section
/// 4.1), summed over the query heads of a unit.
struct AttentionSpread {
  double entropy = 0;   ///< -sum of a ln(a + 1e-10), over steps and tokens: spatial dispersion H
  double variance = 0;  ///< of a token's attention over the steps, w - 1 in the denominator,
                        ///< summed over tokens: temporal shift V
};

/// Adds up an AttentionSpread step by step, with the running mean and sum of squares of each token.
class SpreadOfLast {
 public:
  /// Of the last `count` of `steps` steps.
  SpreadOfLast(int steps, int count, std::size_t heads);

  /// Takes a step of a query head, in ascending order; those before the last ones are left out.
  void add(std::size_t head, int step, const HeadAttention& attention, int row);

  AttentionSpread spread() const;

 private:
  struct Moments {
    int count = 0;
    std::vector<double> mean;
    std::vector<double> squares;  // of the distances from the mean
  };

  int first_;  // of the steps; also the number of tokens before them
  double entropy_ = 0;
  std::vector<Moments> heads_;
};

}  // namespace kvsim
