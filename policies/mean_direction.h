#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policies/interface/policy.h"

namespace kvsim {

/// Scores resident tokens by how much the directions of their vectors differ from the mean
/// direction in the cache, as KeyDiff does (section 3).
class MeanDirection {
 public:
  /// The vector of token `index`, which has just arrived.
  void add(int index, std::span<const float> vector);

  /// Minus the cosine of each resident vector and their mean direction, times a factor that all
  /// share. `tokens`, `vectors` and `scores` are parallel; each token was added.
  void score(std::span<const std::int32_t> tokens, const ResidentVectors& vectors,
             std::span<double> scores);

 private:
  // By text position.
  std::vector<double> lengths_;
  std::vector<double> inverse_lengths_;

  // Scratch of score(): the resident vectors, their inverse lengths, and their mean, [dim].
  std::vector<const float*> rows_;
  std::vector<double> shares_;
  std::vector<double> mean_;
};

}  // namespace kvsim
