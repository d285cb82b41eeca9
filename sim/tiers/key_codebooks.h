#pragma once

#include <cstdint>
#include <vector>

#include "traces/unit.h"

namespace kvsim {

/// Product quantisation of keys (Jégou, Douze and Schmid 2011): dimensions are cut into groups of
/// equal size, and each group of a key is replaced by the nearest of 2^bits centroids.
class KeyCodebooks {
 public:
  /// Lloyd's iterations, fewer if the codes settle.
  static constexpr int kIterations = 25;

  /// Trains on the first `num_trained` keys, from centroids that k-means++ draws by `seed`, then
  /// codes all keys of the unit. `groups` divides head_dim. With fewer keys than centroids there
  /// are as many centroids as keys.
  KeyCodebooks(const Matrix& keys, int num_trained, int groups, int bits, std::uint64_t seed);

  /// Sets product[j] to <query, key j as coded> for tokens begin .. end - 1, at place j - begin.
  void multiply(const float* query, int begin, int end, std::vector<float>& product) const;

 private:
  struct Group {
    Eigen::Index first;               // dimension
    Matrix centroids;                 // [centroids, dims of the group]
    std::vector<std::uint16_t> code;  // per key
  };

  std::vector<Group> groups_;
};

}  // namespace kvsim
