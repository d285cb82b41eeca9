#include "analysis/attention_sample.h"

#include <algorithm>
#include <span>

#include "sim/base/float_lanes.h"
#include "sim/base/vector_targets.h"
#include "traces/unit_seed.h"

namespace kvsim {
namespace {

template <class Target>
struct Unsigned {
  using Longs = std::uint64_t __attribute__((vector_size(16)));
};
template <>
struct Unsigned<Avx2> {
  using Longs = std::uint64_t __attribute__((vector_size(32)));
};
template <>
struct Unsigned<Avx512> {
  using Longs = std::uint64_t __attribute__((vector_size(64)));
};

constexpr std::size_t kBlock = 128;

/// random_bits(x) of each element.
template <class Longs>
KVSIM_INLINE void mix(Longs& x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  x ^= x >> 31;
}

/// The place of the first block of kBlock of the tokens first, first + 1, .. that has one with
/// random_bits(random ^ token) < limit; `count`, a multiple of kBlock, if none has.
template <class Target>
KVSIM_INLINE std::size_t block_below(std::uint64_t random, std::uint64_t first, std::size_t count,
                                     std::uint64_t limit) {
  using Longs = typename Unsigned<Target>::Longs;
  constexpr std::size_t kWidth = sizeof(Longs) / sizeof(std::uint64_t);
  Longs tokens;
  for (std::size_t lane = 0; lane < kWidth; ++lane) tokens[lane] = first + lane;
  for (std::size_t i = 0; i < count; i += kBlock) {
    Longs least = ~Longs{};
    for (std::size_t k = 0; k < kBlock; k += kWidth) {
      Longs bits = tokens ^ random;
      mix(bits);
      least = bits < least ? bits : least;
      tokens += kWidth;
    }
    for (std::size_t lane = 0; lane < kWidth; ++lane) {
      if (least[lane] < limit) return i;
    }
  }
  return count;
}
KVSIM_KERNEL(std::size_t, block_below,
             (std::uint64_t random, std::uint64_t first, std::size_t count, std::uint64_t limit),
             (random, first, count, limit))

/// How many 64-bit numbers are less than rate times 2^64 once they are doubles: those below this.
std::uint64_t limit_of(double rate) {
  std::uint64_t least = 0;
  std::uint64_t most = ~least;  // never less, as it becomes 2^64
  while (least < most) {
    const std::uint64_t middle = least + (most - least) / 2;
    if (static_cast<double>(middle) < rate * 0x1p64) {
      least = middle + 1;
    } else {
      most = middle;
    }
  }
  return least;
}

}  // namespace

AttentionSample::AttentionSample(const Subject& subject, int size, int first_step)
    : seed_(random_bits(unit_seed(static_cast<std::uint64_t>(subject.seed), subject.unit.name),
                        "attention sample")),
      first_step_(std::max(1, first_step)),
      heads_(subject.unit.query.size()) {
  double entries = 0;
  for (int step = first_step_; step < subject.unit.num_tokens(); ++step) {
    entries += num_visible(subject.unit, step) - is_visible(subject.unit, step, step);
  }
  limit_ = entries == 0 ? 0 : limit_of(std::min(1.0, size / entries));
}

void AttentionSample::add(const AttentionRow& row) {
  if (row.step < first_step_) return;
  const double sum = weight_before(row);
  if (sum == 0) return;  // token t, or a sink, has all of the attention
  const std::uint64_t of_row = random_bits(random_bits(seed_, static_cast<std::uint64_t>(row.head)),
                                           static_cast<std::uint64_t>(row.step));
  const std::uint64_t random = random_bits(of_row);
  std::span<const std::int32_t> before = row.visible;
  if (!before.empty() && before.back() == row.step) before = before.first(before.size() - 1);
  const auto add_drawn = [&](std::size_t begin, std::size_t end) {
    for (const std::int32_t j : before.subspan(begin, end - begin)) {
      if (random_bits(random ^ static_cast<std::uint64_t>(j)) >= limit_) continue;
      heads_[row.head].push_back(row.weight()[j] / sum * static_cast<double>(before.size()));
    }
  };
  // Nearly all blocks of tokens have none that is drawn.
  const bool has_gaps = !before.empty() && before.back() - before.front() + 1 != std::ssize(before);
  std::size_t at = 0;
  while (!has_gaps && at + kBlock <= before.size()) {
    const std::size_t rest = (before.size() - at) / kBlock * kBlock;
    at += best_block_below(random, static_cast<std::uint64_t>(before[at]), rest, limit_);
    if (at + kBlock > before.size()) break;
    add_drawn(at, at + kBlock);
    at += kBlock;
  }
  add_drawn(at, before.size());
}

double weight_before(const AttentionRow& row) {
  const std::span<const float> weight = row.weight();
  double sum = 0;
  for (int j = row.first_visible; j < row.step; ++j) sum += weight[j];
  return sum;
}

}  // namespace kvsim
