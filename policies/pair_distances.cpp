#include "policies/pair_distances.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace kvsim {
namespace {

constexpr std::int32_t kNobody = -1;
constexpr double kUnknown = -1;

}  // namespace

// Partial sums let the compiler use vector instructions.
double squared_distance(const ResidentVectors& keys, std::size_t a, std::size_t b) {
  const std::span<const float> x = keys[a];
  const std::span<const float> y = keys[b];
  std::array<float, 8> sums = {};
  std::size_t d = 0;
  for (; d + sums.size() <= x.size(); d += sums.size()) {
    for (std::size_t k = 0; k < sums.size(); ++k) {
      const float difference = x[d + k] - y[d + k];
      sums[k] += difference * difference;
    }
  }
  for (; d < x.size(); ++d) sums[0] += (x[d] - y[d]) * (x[d] - y[d]);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

void PairDistances::begin_step(std::span<const std::int32_t> tokens, const ResidentVectors& keys,
                               std::size_t count) {
  keys_ = keys;
  rows_of_slot_.clear();
  if (count > most_tokens_) return;
  if (count > num_rows_) grow(count);
  const std::span<const std::int32_t> held = tokens.first(count);
  constexpr auto kNoRow = static_cast<std::size_t>(-1);
  rows_of_slot_.assign(count, kNoRow);
  std::vector<std::size_t> free;
  for (std::size_t row = 0; row < num_rows_; ++row) {
    const auto slot = std::lower_bound(held.begin(), held.end(), holders_[row]);
    if (slot != held.end() && *slot == holders_[row]) {
      rows_of_slot_[static_cast<std::size_t>(slot - held.begin())] = row;
    } else {
      free.push_back(row);
    }
  }
  for (std::size_t slot = 0; slot < count; ++slot) {
    if (rows_of_slot_[slot] != kNoRow) continue;
    const std::size_t row = free.back();
    free.pop_back();
    forget(row);
    holders_[row] = held[slot];
    rows_of_slot_[slot] = row;
  }
}

void PairDistances::grow(std::size_t num_rows) {
  num_rows_ = num_rows;
  kept_.assign(num_rows * num_rows, kUnknown);
  holders_.assign(num_rows, kNobody);
}

void PairDistances::forget(std::size_t row) {
  for (std::size_t other = 0; other < num_rows_; ++other) {
    kept_[row * num_rows_ + other] = kUnknown;
    kept_[other * num_rows_ + row] = kUnknown;
  }
}

}  // namespace kvsim
