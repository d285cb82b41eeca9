#include "policies/pair_distances.h"

#include <algorithm>
#include <utility>

#include "sim/base/float_lanes.h"
#include "sim/base/vector_targets.h"

namespace kvsim {
namespace {

// Terms are added in so many sums, whatever the registers hold.
constexpr std::size_t kSums = 8;

template <class Target>
struct EightFloats {
  using Vector = typename Vectors<Target>::Floats;
};
template <>
struct EightFloats<Avx512> {
  using Vector = Vectors<Avx512>::HalfFloats;
};

/// Of so many keys side by side, since an addition to a lane waits for the one before.
template <class Target, std::size_t kKeys>
KVSIM_INLINE void distances_of(const float* key, std::size_t dim, const float* const* others,
                               double* distances) {
  using Vector = typename EightFloats<Target>::Vector;
  constexpr std::size_t kWidth = sizeof(Vector) / sizeof(float);
  constexpr std::size_t kVectors = kSums / kWidth;
  Vector sums[kKeys][kVectors] = {};
  std::size_t d = 0;
  for (; d + kSums <= dim; d += kSums) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      Vector x;
      load(x, key + d + v * kWidth);
      for (std::size_t k = 0; k < kKeys; ++k) {
        Vector y;
        load(y, others[k] + d + v * kWidth);
        const Vector difference = x - y;
        sums[k][v] += difference * difference;
      }
    }
  }
  for (std::size_t k = 0; k < kKeys; ++k) {
    float lanes[kSums];
    for (std::size_t v = 0; v < kVectors; ++v) store(sums[k][v], lanes + v * kWidth);
    for (std::size_t rest = d; rest < dim; ++rest) {
      lanes[0] += (key[rest] - others[k][rest]) * (key[rest] - others[k][rest]);
    }
    double sum = 0;
    for (const float lane : lanes) sum += static_cast<double>(lane);
    distances[k] = sum;
  }
}

template <class Target>
KVSIM_INLINE void all_distances(const float* key, std::size_t dim, const float* const* others,
                                std::size_t count, double* distances) {
  constexpr std::size_t kKeys = 4;
  std::size_t i = 0;
  for (; i + kKeys <= count; i += kKeys) {
    distances_of<Target, kKeys>(key, dim, others + i, distances + i);
  }
  for (; i < count; ++i) distances_of<Target, 1>(key, dim, others + i, distances + i);
}
KVSIM_KERNEL(void, all_distances,
             (const float* key, std::size_t dim, const float* const* others, std::size_t count,
              double* distances),
             (key, dim, others, count, distances))

}  // namespace

std::vector<std::int32_t> PairDistances::begin_step(std::span<const std::int32_t> tokens,
                                                    const ResidentVectors& keys,
                                                    std::size_t count) {
  const std::span<const std::int32_t> held = tokens.first(count);
  std::vector<std::int32_t> arrived = replace(held);
  const bool had_kept = are_kept();
  if (count > most_tokens_) {
    kept_ = {};
  } else if (had_kept) {
    seat(arrived);
  }
  if (!had_kept || !are_kept()) {
    tokens_.assign(held.begin(), held.end());
    for (std::size_t slot = 0; slot < count; ++slot) row_of_token_[place_of(held[slot])] = slot;
  }
  slots_.resize(tokens_.size());
  dim_ = keys.dim();
  keys_.assign(tokens_.size(), count == 0 ? nullptr : keys[0].data());
  for (std::size_t slot = 0; slot < count; ++slot) {
    slots_[row_of(held[slot])] = slot;
    keys_[row_of(held[slot])] = keys[slot].data();
  }
  if (count > most_tokens_) return arrived;
  if (!had_kept) kept_.resize(count * count);
  for (const std::int32_t token : had_kept ? std::span<const std::int32_t>(arrived) : held) {
    keep_row(row_of(token));
  }
  return arrived;
}

void PairDistances::to_keys(std::size_t row, std::span<const float* const> keys,
                            double* distances) const {
  best_all_distances(keys_[row], dim_, keys.data(), keys.size(), distances);
}

/// Takes their rows from the tokens that left, and returns those that have none.
std::vector<std::int32_t> PairDistances::replace(std::span<const std::int32_t> held) {
  if (!held.empty() && place_of(held.back()) >= row_of_token_.size()) {
    row_of_token_.resize(place_of(held.back()) + 1, kNoRow);
  }
  std::vector<std::int32_t> arrived;
  std::vector<bool> stays(tokens_.size(), false);
  for (const std::int32_t token : held) {
    if (has(token)) {
      stays[row_of(token)] = true;
    } else {
      arrived.push_back(token);
    }
  }
  for (std::size_t row = 0; row < tokens_.size(); ++row) {
    if (stays[row] || tokens_[row] == kNobody) continue;
    row_of_token_[place_of(tokens_[row])] = kNoRow;
    tokens_[row] = kNobody;
  }
  return arrived;
}

/// Gives these tokens rows of the kept distances, of which it makes more if there are too few.
void PairDistances::seat(std::span<const std::int32_t> tokens) {
  const std::size_t before = tokens_.size();
  const auto free = static_cast<std::size_t>(std::count(tokens_.begin(), tokens_.end(), kNobody));
  if (free < tokens.size()) {
    const std::size_t needed = before - free + tokens.size();
    const std::size_t size = std::min(most_tokens_, std::max(needed, before + before / 4));
    std::vector<double> kept(size * size);
    for (std::size_t row = 0; row < before; ++row) {
      std::copy_n(kept_.begin() + static_cast<std::ptrdiff_t>(row * before), before,
                  kept.begin() + static_cast<std::ptrdiff_t>(row * size));
    }
    kept_ = std::move(kept);
    tokens_.resize(size, kNobody);
  }
  auto row = tokens_.begin();
  for (const std::int32_t token : tokens) {
    row = std::find(row, tokens_.end(), kNobody);
    *row = token;
    row_of_token_[place_of(token)] = static_cast<std::size_t>(row - tokens_.begin());
  }
}

void PairDistances::keep_row(std::size_t row) {
  const std::size_t size = tokens_.size();
  double* const distances = kept_.data() + row * size;
  to_keys(row, keys_, distances);
  for (std::size_t other = 0; other < size; ++other) kept_[other * size + row] = distances[other];
}

}  // namespace kvsim
