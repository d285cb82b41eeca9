#include "policies/parts/key_redundancy.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "policies/parts/erase_slots.h"
#include "policies/parts/row_products.h"

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

std::vector<std::size_t> KeyRedundancy::follow(
    std::span<const std::int32_t> tokens,
    const std::function<std::span<const float>(std::size_t)>& key) {
  std::vector<std::size_t> left;
  std::size_t kept = 0;
  for (std::size_t slot = 0; slot < keys_.size(); ++slot) {
    const bool stays = kept < tokens.size() && tokens[kept] == keys_[slot].token;
    if (stays) {
      ++kept;
    } else {
      left.push_back(slot);
    }
  }
  if (!left.empty()) remove(left);
  make_room(tokens.size());
  for (std::size_t slot = keys_.size(); slot < tokens.size(); ++slot) {
    keys_.push_back({.token = tokens[slot], .direction = direction_of(key(slot))});
    directions_.push_back(keys_[slot].direction.data());
    if (num_rows_ > 0) {
      keys_[slot].row = free_rows_.back();
      free_rows_.pop_back();
    }
    compare(slot);
  }
  return left;
}

/// The cosines of a key with those of the slots first .. last - 1, computed.
std::vector<double> KeyRedundancy::compute(std::size_t slot, std::size_t first,
                                           std::size_t last) const {
  std::vector<double> found(last - first);
  row_products_in_four({directions_.data() + first, found.size()}, keys_[slot].direction,
                       found.data());
  return found;
}

/// The same, kept or computed: identical to the last bit, and in both directions.
std::vector<double> KeyRedundancy::cosines(std::size_t slot, std::size_t first,
                                           std::size_t last) const {
  if (num_rows_ == 0) return compute(slot, first, last);
  const double* const row = kept_.data() + keys_[slot].row * num_rows_;
  std::vector<double> found;
  found.reserve(last - first);
  for (std::size_t other = first; other < last; ++other) found.push_back(row[keys_[other].row]);
  return found;
}

void KeyRedundancy::keep(std::size_t slot, const std::vector<double>& with_earlier) {
  const std::size_t row = keys_[slot].row;
  for (std::size_t other = 0; other < with_earlier.size(); ++other) {
    const std::size_t other_row = keys_[other].row;
    kept_[row * num_rows_ + other_row] = with_earlier[other];
    kept_[other_row * num_rows_ + row] = with_earlier[other];
  }
}

/// Makes rows for so many keys, unless they are too many. Stays as it is where there are enough.
void KeyRedundancy::make_room(std::size_t count) {
  if (count > most_kept_) {
    num_rows_ = 0;
    kept_ = {};
    return;
  }
  if (count <= num_rows_) return;
  num_rows_ = std::min(most_kept_, std::max(count, num_rows_ + num_rows_ / 2));
  kept_.assign(num_rows_ * num_rows_, 0);
  free_rows_.clear();
  for (std::size_t row = num_rows_; row-- > keys_.size();) free_rows_.push_back(row);
  for (std::size_t slot = 0; slot < keys_.size(); ++slot) {
    keys_[slot].row = slot;
    keep(slot, compute(slot, 0, slot));
  }
}

// A key that has just arrived is the latest one for all that are like it.
void KeyRedundancy::compare(std::size_t slot) {
  Key& arrived = keys_[slot];
  const std::vector<double> with_earlier = compute(slot, 0, slot);
  if (num_rows_ > 0) keep(slot, with_earlier);
  for (std::size_t other = 0; other < slot; ++other) {
    const double similarity = with_earlier[other];
    keys_[other].sum += similarity;
    arrived.sum += similarity;
    if (similarity <= threshold_) continue;
    keys_[other].latest = slot;
    keys_[other].latest_cosine = similarity;
    arrived.latest = other;
    arrived.latest_cosine = similarity;
  }
}

void KeyRedundancy::remove(const std::vector<std::size_t>& left) {
  // Where much of a prompt leaves it takes less to compare what stays.
  const bool compares_again = left.size() > keys_.size() - left.size();
  if (!compares_again) take_out(left);
  std::vector<std::size_t> slot_after(keys_.size());
  auto next = left.begin();
  for (std::size_t slot = 0; slot < keys_.size(); ++slot) {
    slot_after[slot] = slot - static_cast<std::size_t>(next - left.begin());
    if (next == left.end() || *next != slot) continue;
    ++next;
    if (num_rows_ > 0) free_rows_.push_back(keys_[slot].row);
  }
  erase_slots(left, keys_);
  erase_slots(left, directions_);
  for (std::size_t slot = 0; slot < keys_.size(); ++slot) {
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

/// Takes keys out of what the others know of them.
void KeyRedundancy::take_out(const std::vector<std::size_t>& left) {
  std::vector<bool> leaves(keys_.size(), false);
  for (const std::size_t slot : left) {
    leaves[slot] = true;
    const std::vector<double> with_all = cosines(slot, 0, keys_.size());
    for (std::size_t other = 0; other < keys_.size(); ++other) keys_[other].sum -= with_all[other];
  }
  for (std::size_t slot = 0; slot < keys_.size(); ++slot) {
    const std::size_t latest = keys_[slot].latest;
    if (!leaves[slot] && latest != kNone && leaves[latest]) find_latest(slot, leaves);
  }
}

/// Finds the latest key like that of a slot, before the one that is leaving.
void KeyRedundancy::find_latest(std::size_t slot, const std::vector<bool>& leaves) {
  constexpr std::size_t kAtOnce = 32;
  std::size_t end = keys_[slot].latest;
  keys_[slot].latest = kNone;
  while (end > 0) {
    const std::size_t first = end - std::min(end, kAtOnce);
    const std::vector<double> found = cosines(slot, first, end);
    for (std::size_t other = end; other-- > first;) {
      if (other == slot || leaves[other] || found[other - first] <= threshold_) continue;
      keys_[slot].latest = other;
      keys_[slot].latest_cosine = found[other - first];
      return;
    }
    end = first;
  }
}

std::vector<double> KeyRedundancy::softmax_of_means() const {
  std::vector<double> means(keys_.size());
  for (std::size_t slot = 0; slot < keys_.size(); ++slot) means[slot] = keys_[slot].sum;
  const std::vector<double> with_first =
      falls_back_ ? cosines(0, 0, keys_.size()) : std::vector<double>();
  for (std::size_t slot = 0; slot < keys_.size(); ++slot) {
    const Key& key = keys_[slot];
    if (key.latest != kNone) {
      means[key.latest] -= key.latest_cosine;
    } else if (falls_back_ && slot > 0) {
      means[0] -= with_first[slot];
    }
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
