#pragma once

#include <cstring>

namespace kvsim {

/// Rows and columns of the tile of transpose_tile().
inline constexpr int kTile = 4;

/// to[c][to_offset + r] = from[r][from_offset + c] for a tile of kTile rows and columns.
inline void transpose_tile(const float* const* from, int from_offset, float* const* to,
                           int to_offset) {
  using Four = float __attribute__((vector_size(kTile * sizeof(float))));
  Four row[kTile];
  for (int i = 0; i < kTile; ++i) std::memcpy(&row[i], from[i] + from_offset, sizeof row[i]);
  const Four low01 = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
  const Four high01 = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
  const Four low23 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
  const Four high23 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
  const Four column[kTile] = {__builtin_shufflevector(low01, low23, 0, 1, 4, 5),
                              __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
                              __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
                              __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
  for (int i = 0; i < kTile; ++i) std::memcpy(to[i] + to_offset, &column[i], sizeof column[i]);
}

}  // namespace kvsim
