#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/attention/attention.h"

namespace kvsim {

/// The full attention of a step, summed over the tokens of pages: page i holds the positions
/// [i * page, (i + 1) * page) of the text. Each softmax is taken per query head, then averaged over
/// the group.
class PageAttention {
 public:
  /// `unit` has to outlive the object. `page` is in tokens.
  PageAttention(const Unit& unit, int page) : unit_(unit), page_(page) {}

  /// Takes the step at row `row` of the block.
  void sum(const AttentionBlock& block, int row);

  int page() const { return page_; }

  /// The pages before that of the step, ascending, of which the step sees a token.
  std::span<const std::int32_t> candidates() const { return candidates_; }

  /// The attention to each page before that of the step, [pages].
  std::span<const double> older() const { return older_; }

  double own() const { return own_; }    ///< to the page of the step
  double sink() const { return sink_; }  ///< to a learned sink; 0 without one

 private:
  void list_candidates(int step);

  const Unit& unit_;
  int page_;
  std::vector<std::int32_t> candidates_;
  std::vector<double> older_;
  double own_ = 0;
  double sink_ = 0;
};

/// Writes the `count` candidates of the largest scores to `chosen`, ascending; of equal scores the
/// later page is taken. `score` is by page.
void choose_best(std::span<const std::int32_t> candidates, std::span<const double> score,
                 std::size_t count, std::vector<std::int32_t>& chosen);

/// How many numbers two ascending lists have in common.
std::size_t num_common(std::span<const std::int32_t> a, std::span<const std::int32_t> b);

}  // namespace kvsim
