#pragma once

#include <cstdint>
#include <vector>

#include "traces/unit.h"

namespace kvsim {

/// SimHash codes of vectors (Charikar 2002): in each of several tables, the signs of products with
/// `bits` random directions. The chance that two vectors at an angle x agree in a bit is 1 - x /
/// pi.
class KeyHashes {
 public:
  /// Codes all keys less `centre`. `bits` is at most 16.
  KeyHashes(const Matrix& keys, const Eigen::RowVectorXf& centre, int tables, int bits,
            std::uint64_t seed);

  /// The codes of a query, [tables].
  std::vector<std::uint16_t> codes_of(const Eigen::RowVectorXf& query) const;

  /// In how many tables the code of a key is that of the query.
  int num_equal(const std::vector<std::uint16_t>& query, int key) const;

 private:
  std::vector<std::uint16_t> pack(const float* product) const;

  std::size_t tables_;
  int bits_;
  Matrix directions_;                 // [head_dim, tables * bits]
  std::vector<std::uint16_t> codes_;  // [keys, tables]
};

}  // namespace kvsim
