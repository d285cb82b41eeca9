#pragma once

namespace kvsim {

/// The law of attention scores that Scissorhands Theorem 4.1 assumes: density c (x + b)^-k on
/// [0, u - b].
struct AssumedLaw {
  double k;
  double b;
  double u;
};

/// Expected attention loss of a cache that always holds the largest scores, a share `share` of all,
/// under the law itself; 0..1. For k > 1.
double loss_of_law(const AssumedLaw& law, double share);

/// Delta / b of appendix B.3: the mean of the law is Delta / (k - 2). Below 1, and rising to 1 as
/// u / b grows. For k > 2.
double delta_share(const AssumedLaw& law);

/// Scissorhands Theorems 4.1 and B.3, for a cache that always holds the tokens with the largest
/// scores. The bounds as printed follow from the proof only where
/// share >= (1 + epsilon) / 2 and delta_share() >= 0.98; elsewhere they may be too small, even
/// negative.
struct ScissorhandsTheorem {
  double loss;         ///< right side of equation (11), meant to bound loss_of_law()
  double error;        ///< right side of equation (4): bounds the expected output error
  double proven_loss;  ///< what the proof reaches before its last two steps; holds for every share
  double probability;  ///< least probability that the bounds hold at every step; may be below 0
};

/// `share` is B / T_max, above `epsilon`; 0 < epsilon < 1; `first` is T_min and `last` T_max, in
/// tokens. For k > 2; the theorems also assume u >= 5 b.
ScissorhandsTheorem scissorhands_theorem(const AssumedLaw& law, double share, double epsilon,
                                         int first, int last);

}  // namespace kvsim
