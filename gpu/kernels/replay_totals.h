#pragma once

#include <bit>
#include <cstdint>

#include "gpu/kernels/attended.h"
#include "gpu/kernels/find_ranked_key.h"
#include "sim/outputs/measurement.h"

namespace kvsim::gpu {

KVSIM_DEVICE inline ReplayTotals operator+(const ReplayTotals& a, const ReplayTotals& b) {
  return {.attention_loss = a.attention_loss + b.attention_loss,
          .error = a.error + b.error,
          .squared = a.squared + b.squared,
          .bound = a.bound + b.bound,
          .largest_error = a.largest_error < b.largest_error ? b.largest_error : a.largest_error,
          .accesses = a.accesses + b.accesses,
          .misses = a.misses + b.misses,
          .violations = a.violations + b.violations};
}

/// Totals and percentiles of the measurements of one replay, once its last block is done.
/// CPU counterparts: Metrics in sim/replay/metrics.h, select_percentile() in sim/kernels.
template <class Block>
class TotalsOfReplay {
 public:
  KVSIM_DEVICE TotalsOfReplay(Block& block, const Batch& batch, int replay)
      : block_(block),
        batch_(batch),
        replay_(replay),
        unit_(batch.replays[replay].unit),
        num_heads_(batch.shape.group_size),
        num_tokens_(batch.shape.num_tokens),
        num_steps_(num_tokens_ - batch.shape.prompt_length),
        num_errors_(((num_steps_ - 1) / batch.error_stride + 1) * num_heads_),
        error_(batch.difference + batch.tokens_of(replay) * num_heads_) {}

  KVSIM_DEVICE void run() {
    ReplayTotals totals = block_.reduce(
        num_steps_ * num_heads_, ReplayTotals{}, [&](int i) { return measure(i); },
        [](const ReplayTotals& a, const ReplayTotals& b) { return a + b; });
    const std::int32_t* evicted_after = batch_.evicted_after + batch_.tokens_of(replay_);
    totals.evictions = block_.reduce(
        num_tokens_, 0,
        [&](int token) { return static_cast<int>(evicted_after[token] < num_tokens_); }, Sum());
    totals.footprint = block_.reduce(
        num_tokens_, std::int64_t{0},
        [&](int token) {
          const int first = token > batch_.shape.prompt_length ? token : batch_.shape.prompt_length;
          const int lifetime = evicted_after[token] - first;
          return static_cast<std::int64_t>(lifetime > 0 ? lifetime : 0);
        },
        Sum());
    totals.error_p50 = percentile(0.50);
    totals.error_p95 = percentile(0.95);
    totals.peak_held = batch_.peak_held[replay_];
    totals.ties = batch_.num_ties[replay_];
    block_.once([&] { batch_.totals[replay_] = totals; });
  }

 private:
  // Row `i` of the measured steps. Divides the row's difference by the norm of the output.
  KVSIM_DEVICE ReplayTotals measure(int i) {
    const int step = batch_.shape.prompt_length + i / num_heads_;
    const std::size_t row = static_cast<std::size_t>(step) * num_heads_ + i % num_heads_;
    const std::size_t of_replay = batch_.tokens_of(replay_) * num_heads_ + row;
    const std::size_t of_unit = batch_.tokens_of(unit_) * num_heads_ + row;
    Measurement measured;
    measured.attention_loss = batch_.attention_loss[of_replay];
    ReplayTotals totals{.attention_loss = measured.attention_loss,
                        .accesses = batch_.num_pivotal[of_unit],
                        .misses = batch_.num_misses[of_replay]};
    if ((num_tokens_ - 1 - step) % batch_.error_stride != 0) return totals;
    set_error(error_[row], batch_.output_norm[of_unit],
              batch_.longest_value[batch_.tokens_of(unit_) + step], measured);
    error_[row] = measured.error;
    totals.error = totals.largest_error = measured.error;
    totals.squared = measured.squared;
    totals.bound = measured.bound;
    totals.violations = measured.violates_bound() ? 1 : 0;
    return totals;
  }

  // Error `i`, counted back from the last step, as bits: those of non-negative numbers have the
  // order of the numbers.
  KVSIM_DEVICE std::uint64_t error_bits(int i) const {
    const int step = num_tokens_ - 1 - i / num_heads_ * batch_.error_stride;
    const std::size_t row = static_cast<std::size_t>(step) * num_heads_ + i % num_heads_;
    return std::bit_cast<std::uint64_t>(error_[row]);
  }

  // Linearly interpolated between neighbours.
  KVSIM_DEVICE double percentile(double rank) {
    const double position = rank * (num_errors_ - 1);
    const int place = static_cast<int>(position);
    const auto key_of = [&](int i) { return error_bits(i); };
    const auto found =
        find_ranked_key<std::uint64_t>(block_, num_errors_, num_errors_ - 1 - place, key_of);
    const auto below = std::bit_cast<double>(found.key);
    const bool is_last_equal = num_errors_ - found.num_larger == place + 1;
    if (!is_last_equal || found.num_larger == 0) return below;
    const std::uint64_t next = block_.reduce(
        num_errors_, ~std::uint64_t{0},
        [&](int i) {
          const std::uint64_t bits = error_bits(i);
          return bits > found.key ? bits : ~std::uint64_t{0};
        },
        [](std::uint64_t a, std::uint64_t b) { return a < b ? a : b; });
    return below + (position - place) * (std::bit_cast<double>(next) - below);
  }

  Block& block_;
  const Batch& batch_;
  int replay_;
  int unit_;
  int num_heads_;
  int num_tokens_;
  int num_steps_;   // measured ones
  int num_errors_;  // of all query heads
  double* error_;   // first |o - o'|, then relative to |o|
};

template <class Block>
KVSIM_DEVICE void total_replay(Block& block, const Batch& batch, int replay) {
  TotalsOfReplay<Block>(block, batch, replay).run();
}

}  // namespace kvsim::gpu
