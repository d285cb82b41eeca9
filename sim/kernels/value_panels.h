#pragma once

#include <algorithm>
#include <cstddef>

#include "sim/kernels/aligned_rows.h"
#include "traces/unit.h"

namespace kvsim {

/// Values arranged for sums of weighted values: panels of kDims dimensions, in each of which a
/// token has a cache line. A sum over some tokens then reads one line per token and tile, and the
/// tokens of a panel lie on few pages.
class ValuePanels {
 public:
  static constexpr int kDims = 12;
  static constexpr int kStride = kCacheLine / sizeof(float);  ///< from one token to the next

  /// A copy of `value`, [tokens, value_dim].
  explicit ValuePanels(const Matrix& value)
      : num_tokens_(static_cast<std::size_t>(value.rows())),
        // At least a row per panel: kernels add to a panel's address even where it has no token.
        rows_(num_panels(static_cast<std::size_t>(value.cols())) *
                  std::max<std::size_t>(num_tokens_, 1),
              kStride) {
    const auto dims = static_cast<int>(value.cols());
    for (int first = 0; first < dims; first += kDims) {
      float* to = rows_.row(first / kDims * num_tokens_);
      const int count = std::min(kDims, dims - first);
      for (int token = 0; token < value.rows(); ++token, to += kStride) {
        std::copy_n(value.row(token).data() + first, count, to);
      }
    }
  }

  /// The values of all tokens, [tokens, kStride], in dimensions index * kDims to
  /// index * kDims + kDims - 1.
  const float* panel(int index) const {
    return rows_.row(static_cast<std::size_t>(index) * num_tokens_);
  }

  static constexpr std::size_t bytes(std::size_t num_tokens, std::size_t value_dim) {
    return num_panels(value_dim) * num_tokens * kStride * sizeof(float);
  }

 private:
  static constexpr std::size_t num_panels(std::size_t value_dim) {
    return (value_dim + kDims - 1) / kDims;
  }

  std::size_t num_tokens_;
  AlignedRows rows_;  // one panel after the other
};

}  // namespace kvsim
