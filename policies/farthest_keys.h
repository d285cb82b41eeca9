#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "policies/pair_distances.h"

namespace kvsim {

/// The greedy choice of k-centre among the tokens of a step: the key that is farthest from all
/// chosen ones comes next, of several the first of the text.
class FarthestKeys {
 public:
  struct Choice {
    std::int32_t token;
    double squared_distance;  ///< to the nearest key chosen before
  };

  /// Continues `order` until it has all tokens of the step.
  void complete(const PairDistances& distances, std::vector<Choice>& order);

 private:
  void begin(const PairDistances& distances, const std::vector<Choice>& order);
  double approach_all(const PairDistances& distances, const std::vector<Choice>& order,
                      std::size_t left);
  double approach(const PairDistances& distances, std::size_t row);
  void take(const PairDistances& distances, std::int32_t token);

  // Of each token that is not chosen. Where distances are kept each row has a place; that of one
  // which is chosen, or has no token, counts as nearer than any.
  std::vector<double> nearest_;  // squared distance to the nearest chosen key
  std::vector<double> tokens_;
  std::vector<double> limits_;  // -1 for the rows chosen, which no distance is below, or infinity
  std::vector<const float*> keys_;  // where no distances are kept
  std::vector<double> distances_;   // likewise, of a chosen key to these
};

}  // namespace kvsim
