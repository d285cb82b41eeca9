#pragma once

namespace kvsim {

/// Attention scores as Scissorhands Theorem 4.1 assumes them: density c (x + b)^-k on [0, u - b].
struct AssumedLaw {
  double k;
  double b;
  double u;
};

/// What Theorems 4.1 and B.3 say, as printed, of a cache that always holds the largest scores.
struct ScissorhandsTheorem {
  double law_loss;     ///< the expected share of attention that is missing, of the law itself
  double loss;         ///< equation (11), which is to bound it
  double error;        ///< equation (4): bounds the expected distance of the outputs
  double probability;  ///< that both hold at every step, at least; at 0 or below it says nothing
};

/// `share` is B / T_max, above `epsilon`; 0 < epsilon < 1; `first` is T_min, `last` T_max, in
/// tokens. The theorems assume k > 2 and u >= 5 b; the formulas need k > 1.
ScissorhandsTheorem scissorhands_theorem(const AssumedLaw& law, double share, double epsilon,
                                         int first, int last);

}  // namespace kvsim
