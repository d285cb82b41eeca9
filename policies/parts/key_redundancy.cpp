#include "policies/parts/key_redundancy.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "policies/parts/lane_sums.h"

namespace kvsim {
namespace {

constexpr double kLeastNorm = 1e-8;  // added to norms, as in the program

std::vector<double> direction_of(std::span<const float> key) {
  double square = 0;
  for (const float x : key) square += double{x} * double{x};
  const double norm = std::sqrt(square) + kLeastNorm;
  std::vector<double> direction;
  direction.reserve(key.size());
  for (const float x : key) direction.push_back(x / norm);
  return direction;
}

}  // namespace

void KeyRedundancy::follow(std::span<const std::int32_t> tokens,
                           const std::function<std::span<const float>(std::size_t)>& key) {
  std::vector<bool> leaves(keys_.size(), false);
  std::size_t kept = 0;
  for (std::size_t slot = 0; slot < keys_.size(); ++slot) {
    const bool stays = kept < tokens.size() && tokens[kept] == keys_[slot].token;
    if (stays) ++kept;
    leaves[slot] = !stays;
  }
  if (kept < keys_.size()) remove(leaves);
  for (std::size_t slot = keys_.size(); slot < tokens.size(); ++slot) {
    keys_.push_back({.token = tokens[slot], .direction = direction_of(key(slot))});
    compare(slot);
  }
}

double KeyRedundancy::cosine(std::size_t a, std::size_t b) const {
  const std::vector<double>& x = keys_[a].direction;
  const std::vector<double>& y = keys_[b].direction;
  return sum_in_lanes<4>(x.size(), [&](std::size_t d) { return x[d] * y[d]; });
}

// A key that has just arrived is the latest one for all that are like it.
void KeyRedundancy::compare(std::size_t slot) {
  Key& arrived = keys_[slot];
  for (std::size_t other = 0; other < slot; ++other) {
    const double similarity = cosine(slot, other);
    keys_[other].sum += similarity;
    arrived.sum += similarity;
    if (similarity <= threshold_) continue;
    keys_[other].latest = slot;
    arrived.latest = other;
  }
}

void KeyRedundancy::remove(const std::vector<bool>& leaves) {
  const auto num_leaving = static_cast<std::size_t>(std::count(leaves.begin(), leaves.end(), true));
  const std::size_t num_kept = leaves.size() - num_leaving;
  // Where much of a prompt leaves it takes less to compare what stays.
  const bool compares_again = num_leaving > num_kept;
  if (!compares_again) {
    for (std::size_t slot = 0; slot < leaves.size(); ++slot) {
      if (leaves[slot]) continue;
      for (std::size_t other = 0; other < leaves.size(); ++other) {
        if (leaves[other]) keys_[slot].sum -= cosine(slot, other);
      }
      const std::size_t latest = keys_[slot].latest;
      if (latest == kNone || !leaves[latest]) continue;
      keys_[slot].latest = kNone;
      for (std::size_t other = latest; other-- > 0;) {
        if (other == slot || leaves[other] || cosine(slot, other) <= threshold_) continue;
        keys_[slot].latest = other;
        break;
      }
    }
  }
  std::vector<std::size_t> slot_after(leaves.size(), kNone);
  std::size_t kept = 0;
  for (std::size_t slot = 0; slot < leaves.size(); ++slot) {
    if (leaves[slot]) continue;
    slot_after[slot] = kept;
    if (kept != slot) keys_[kept] = std::move(keys_[slot]);
    ++kept;
  }
  keys_.resize(kept);
  for (std::size_t slot = 0; slot < kept; ++slot) {
    Key& key = keys_[slot];
    if (compares_again) {
      key.sum = 0;
      key.latest = kNone;
      compare(slot);
    } else if (key.latest != kNone) {
      key.latest = slot_after[key.latest];
    }
  }
}

std::vector<double> KeyRedundancy::softmax_of_means() const {
  std::vector<double> means(keys_.size());
  for (std::size_t slot = 0; slot < keys_.size(); ++slot) means[slot] = keys_[slot].sum;
  for (std::size_t slot = 0; slot < keys_.size(); ++slot) {
    std::size_t uncounted = keys_[slot].latest;
    if (uncounted == kNone && falls_back_) uncounted = 0;
    if (uncounted != kNone && uncounted != slot) means[uncounted] -= cosine(slot, uncounted);
  }
  const auto count = static_cast<double>(means.size());
  for (double& mean : means) mean /= count;
  const double most = *std::max_element(means.begin(), means.end());
  for (double& mean : means) mean = std::exp(mean - most);
  const double sum = std::accumulate(means.begin(), means.end(), 0.0);
  for (double& mean : means) mean /= sum;
  return means;
}

}  // namespace kvsim
