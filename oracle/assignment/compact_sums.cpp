#include "oracle/assignment/compact_sums.h"

#include <array>

#include "sim/base/interrupt.h"
#include "sim/kernels/candidate_kernels.h"

namespace kvsim {
namespace {

constexpr std::size_t kAtOnce = 256;

}  // namespace

// In the order in which RemainingSums adds, so that roundings are the same.
CompactSums::CompactSums(const StepRows& rows)
    : rows_(&rows),
      below_(offset(rows.num_tokens())),
      exact_(block_offset((rows.num_tokens() + kBlock - 1) / kBlock)) {
  std::vector<double> later(rows.num_tokens(), 0);
  for (int step = num_tokens() - 1; step >= 0; --step) {
    poll_interrupt();
    const std::size_t size = static_cast<std::size_t>(step) + 1;
    std::uint16_t* const below = below_.data() + offset(step);
    for (std::size_t j = 0; j < size; ++j) below[j] = upper_bits(static_cast<float>(later[j]));
    if (step % kBlock == 0) {
      std::copy(later.begin(), later.begin() + step + 1,
                exact_.begin() + static_cast<std::ptrdiff_t>(block_offset(step / kBlock)));
    }
    if (step >= rows.first_measured()) add_to_sums(rows.row(step), later.data());
  }
}

void CompactSums::at(int step, std::span<const std::int32_t> tokens, float* sums) const {
  const int block = block_of(step);
  const double* const start = kept(block);
  std::array<double, kAtOnce> exact;
  for (std::size_t begin = 0; begin < tokens.size(); begin += kAtOnce) {
    const auto part = tokens.subspan(begin, std::min(kAtOnce, tokens.size() - begin));
    for (std::size_t i = 0; i < part.size(); ++i) {
      exact[i] = start != nullptr ? start[part[i]] : 0;
    }
    for (int later = last_row(block); later >= first_row(step); --later) {
      const float* const row = rows_->row(later).data();
      for (std::size_t i = 0; i < part.size(); ++i) exact[i] += double{row[part[i]]};
    }
    for (std::size_t i = 0; i < part.size(); ++i) sums[begin + i] = static_cast<float>(exact[i]);
  }
}

CompactRow::CompactRow(const CompactSums& sums)
    : sums_(&sums), exact_(sums.num_tokens()), row_(sums.num_tokens()) {}

std::span<const float> CompactRow::at(int step) {
  const int block = CompactSums::block_of(step);
  const std::size_t size = static_cast<std::size_t>(step) + 1;
  if (block != block_ || step > step_) {
    const double* const start = sums_->kept(block);
    if (start != nullptr) {
      std::copy(start, start + size, exact_.begin());
    } else {
      std::fill(exact_.begin(), exact_.begin() + step + 1, 0);
    }
    block_ = block;
    step_ = sums_->last_row(block);
  }
  for (int later = step_; later >= sums_->first_row(step); --later) {
    add_to_sums(sums_->rows_->row(later).first(size), exact_.data());
  }
  step_ = step;
  std::copy(exact_.begin(), exact_.begin() + step + 1, row_.begin());
  return std::span<const float>(row_).first(size);
}

}  // namespace kvsim
