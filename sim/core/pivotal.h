#pragma once

namespace kvsim {

/// Whether attention weight / weight_sum at this step exceeds 1 / (step + 1): the token is pivotal
/// (Scissorhands section 3.2 with alpha = 1/t).
constexpr bool is_pivotal(float weight, double weight_sum, int step) {
  return static_cast<double>(weight) * (step + 1) > weight_sum;
}

}  // namespace kvsim
