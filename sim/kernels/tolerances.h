#pragma once

namespace kvsim {

/// Below this sum of kept weights, exp(logit - largest logit of the full attention) may underflow.
/// The weights are then rescaled to the largest logit that the cache holds.
inline constexpr double kMinWeightSum = 1e-3;

/// An output error violates its bound if it exceeds it by more than this share of the bound.
inline constexpr double kBoundTolerance = 1e-4;

}  // namespace kvsim
