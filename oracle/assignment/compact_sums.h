#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/attention/step_rows.h"

namespace kvsim {

/// The numbers of RemainingSums in 5/8 of its memory, beside the rows of which they are sums: per
/// step and token 16 bits, rounded down, and the exact sums of every kBlock-th step. From these and
/// the rows of at most kBlock - 1 steps every float of RemainingSums follows to the last bit.
class CompactSums {
 public:
  static constexpr int kBlock = 16;

  /// False of rows whose sums a device added up, in an order of its own: RemainingSums takes those.
  static bool can_sum(const StepRows& rows) { return rows.remaining().empty(); }

  /// `rows` has to outlive the object. Requires can_sum(). Throws Interrupted.
  explicit CompactSums(const StepRows& rows);

  int num_tokens() const { return rows_->num_tokens(); }

  /// Of step t, for j = 0 .. t, as from_upper_bits() reads them: at most the exact numbers.
  const std::uint16_t* below(int step) const { return below_.data() + offset(step); }

  /// RemainingSums::row(step)[token].
  float at(int step, int token) const {
    float sum = 0;
    at(step, {&token, 1}, &sum);
    return sum;
  }

  /// Of several tokens, which are at most `step`: sums [tokens.size()].
  void at(int step, std::span<const std::int32_t> tokens, float* sums) const;

 private:
  friend class CompactRow;

  static std::size_t offset(int step) {
    return static_cast<std::size_t>(step) * (static_cast<std::size_t>(step) + 1) / 2;
  }
  static std::size_t block_offset(int block) {
    const auto before = static_cast<std::size_t>(block);
    return (before * before - before) / 2 * kBlock + before;
  }
  /// The first step from `step` on whose sums are kept, and its place; the text may end before.
  static int block_of(int step) { return (step + kBlock - 1) / kBlock; }

  /// The exact sums of the end of a block, for j = 0 .. block * kBlock; null behind the text.
  const double* kept(int block) const {
    return block * kBlock < num_tokens() ? exact_.data() + block_offset(block) : nullptr;
  }
  int last_row(int block) const { return std::min(block * kBlock, num_tokens() - 1); }
  int first_row(int step) const { return std::max(step + 1, rows_->first_measured()); }

  const StepRows* rows_;
  std::vector<std::uint16_t> below_;  // row after row
  std::vector<double> exact_;         // the sums of every kBlock-th step
};

/// Exact rows of a CompactSums, one at a time. Takes 12 bytes per token.
class CompactRow {
 public:
  /// `sums` has to outlive the object.
  explicit CompactRow(const CompactSums& sums);

  /// RemainingSums::row(step), [step + 1]; until the next call. The least work if calls go on from
  /// a step to earlier ones.
  std::span<const float> at(int step);

 private:
  const CompactSums* sums_;
  int block_ = -1;
  int step_ = 0;
  std::vector<double> exact_;  // of step_, for j <= step_
  std::vector<float> row_;
};

}  // namespace kvsim
