#pragma once

#include <cstdint>
#include <optional>

#include "sim/outputs/altered_attention.h"
#include "sim/outputs/cached_attention.h"
#include "sim/tiers/page_attention.h"
#include "sim/tiers/page_choices.h"
#include "sim/tiers/selectors.h"

namespace kvsim {

/// How well what a selector chooses stands for the full attention: means over the measured steps,
/// and over query heads where these differ.
struct SelectionQuality {
  std::int64_t steps = 0;     ///< measured
  std::int64_t accesses = 0;  ///< chosen pages, summed over steps
  /// Tokens, those of the step's own page included; of a selector that samples, of its sample, mean
  /// over query heads.
  double attended_mean = 0;
  double attention_recall = 0;  ///< share of the full attention on these tokens
  double output_error_sq = 0;   ///< |o - o'|²
  /// Share of the exact choice of as many pages that is chosen; mean over the steps that choose.
  std::optional<double> topk_overlap;
  /// Share of the choice at the step before; mean over the steps that follow one that chooses.
  std::optional<double> step_overlap;
  std::int64_t summary_bytes = 0;  ///< SelectorInfo::summary_bytes
};

/// In: the full attention of a unit, block by block. Out: what one selector chooses and how good
/// that is.
class AttendedPages {
 public:
  /// `unit` has to outlive the object. `sums_mass`: fill PageChoices::mass and what belongs to it.
  /// `seed` is that of the unit.
  AttendedPages(const SelectorSpec& selector, ReplayedUnit& unit, bool sums_mass,
                std::uint64_t seed);

  /// Takes the block of the unit. `attention` is that of each row, by row, at this page size.
  void add_block(const std::vector<PageAttention>& attention);

  /// The differences of the outputs in the block.
  const OutputDeltas& deltas() const { return deltas_; }

  /// After the last block.
  const PageChoices& choices() const { return choices_; }
  SelectionQuality quality() const;

 private:
  void add_prompt_step(const PageAttention& attention);
  void add_step(int row, const PageAttention& attention);
  void compare(const PageAttention& attention, int step);
  void attend(int row);
  Measurement measure(int head, int row);
  void add_masses(const PageAttention& attention, int step);

  const ReplayedUnit& replayed_;
  const Unit& unit_;
  bool sums_mass_;
  std::unique_ptr<Selector> selector_;
  CachedAttention attention_;
  AlteredAttention estimate_;  // of a selector that samples
  OutputDeltas deltas_;
  PageChoices choices_;
  SelectionQuality sums_;
  double topk_sum_ = 0;
  double overlap_sum_ = 0;
  std::int64_t topk_steps_ = 0;
  std::int64_t overlap_steps_ = 0;

  // Of a step.
  std::vector<std::int32_t> chosen_;
  std::vector<std::int32_t> exact_;
  std::vector<std::int32_t> tokens_;  // attended to
  std::vector<float> mean_;           // their attention among themselves, group mean
};

}  // namespace kvsim
