#pragma once

namespace kvsim {

/// The law of attention scores that Scissorhands Theorem 4.1 assumes: density c (x + b)^-k on
/// [0, u - b].
struct AssumedLaw {
  double k;
  double b;
  double u;
};

/// Scissorhands Theorems 4.1 and B.3, as printed, for a cache that always holds the tokens with the
/// largest scores.
struct ScissorhandsTheorem {
  double law_loss;     ///< expected attention loss under the law itself, 0..1
  double loss;         ///< right side of equation (11), meant to bound law_loss
  double error;        ///< right side of equation (4): bounds the expected output error
  double probability;  ///< least probability that both bounds hold at every step; may be below 0
};

/// `share` is B / T_max, above `epsilon`; 0 < epsilon < 1; `first` is T_min and `last` T_max, in
/// tokens. The theorems assume k > 2 and u >= 5 b; the formulas need only k > 1.
ScissorhandsTheorem scissorhands_theorem(const AssumedLaw& law, double share, double epsilon,
                                         int first, int last);

}  // namespace kvsim
