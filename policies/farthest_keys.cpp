#include "policies/farthest_keys.h"

#include <algorithm>
#include <limits>

#include "sim/base/float_lanes.h"
#include "sim/base/interrupt.h"
#include "sim/base/vector_targets.h"

namespace kvsim {
namespace {

constexpr double kUnreached = std::numeric_limits<double>::infinity();
constexpr double kTaken = -1;

template <class Target>
using Doubles = typename Vectors<Target>::Doubles;

/// Lowers `nearest` to the distances, and returns the largest that is left.
template <class Target>
KVSIM_INLINE double lower(const double* distances, double* nearest, std::size_t count) {
  constexpr std::size_t kWidth = kDoubles<Target>;
  Doubles<Target> largest = Doubles<Target>{} + kTaken;
  std::size_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    Doubles<Target> distance;
    Doubles<Target> near;
    load(distance, distances + i);
    load(near, nearest + i);
    near = distance < near ? distance : near;
    store(near, nearest + i);
    largest = near > largest ? near : largest;
  }
  double lanes[kWidth];
  store(largest, lanes);
  double most = *std::max_element(lanes, lanes + kWidth);
  for (; i < count; ++i) {
    nearest[i] = std::min(nearest[i], distances[i]);
    most = std::max(most, nearest[i]);
  }
  return most;
}
KVSIM_KERNEL(double, lower, (const double* distances, double* nearest, std::size_t count),
             (distances, nearest, count))

/// The least of the distances where `limits` are not larger.
template <class Target>
KVSIM_INLINE double least(const double* distances, const double* limits, std::size_t count) {
  constexpr std::size_t kWidth = kDoubles<Target>;
  constexpr std::size_t kSums = 4;  // a comparison waits for the one before
  Doubles<Target> smallest[kSums];
  for (Doubles<Target>& of_sum : smallest) of_sum = Doubles<Target>{} + kUnreached;
  std::size_t i = 0;
  const auto take = [&](std::size_t at, Doubles<Target> & into) __attribute__((always_inline)) {
    Doubles<Target> distance;
    Doubles<Target> limit;
    load(distance, distances + at);
    load(limit, limits + at);
    distance = limit > distance ? limit : distance;
    into = distance < into ? distance : into;
  };
  for (; i + kSums * kWidth <= count; i += kSums * kWidth) {
    for (std::size_t k = 0; k < kSums; ++k) take(i + k * kWidth, smallest[k]);
  }
  for (; i + kWidth <= count; i += kWidth) take(i, smallest[0]);
  double found = kUnreached;
  for (; i < count; ++i) found = std::min(found, std::max(limits[i], distances[i]));
  for (const Doubles<Target>& of_sum : smallest) {
    double lanes[kWidth];
    store(of_sum, lanes);
    found = std::min(found, *std::min_element(lanes, lanes + kWidth));
  }
  return found;
}
KVSIM_KERNEL(double, least, (const double* distances, const double* limits, std::size_t count),
             (distances, limits, count))

/// The lowest of the tokens whose number is `value`.
template <class Target>
KVSIM_INLINE double first_with(const double* numbers, const double* tokens, std::size_t count,
                               double value) {
  constexpr std::size_t kWidth = kDoubles<Target>;
  const Doubles<Target> wanted = Doubles<Target>{} + value;
  const Doubles<Target> none = Doubles<Target>{} + kUnreached;
  Doubles<Target> first = none;
  std::size_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    Doubles<Target> number;
    Doubles<Target> token;
    load(number, numbers + i);
    load(token, tokens + i);
    token = number == wanted ? token : none;
    first = token < first ? token : first;
  }
  double lanes[kWidth];
  store(first, lanes);
  double found = *std::min_element(lanes, lanes + kWidth);
  for (; i < count; ++i) {
    if (numbers[i] == value) found = std::min(found, tokens[i]);
  }
  return found;
}
KVSIM_KERNEL(double, first_with,
             (const double* numbers, const double* tokens, std::size_t count, double value),
             (numbers, tokens, count, value))

}  // namespace

void FarthestKeys::complete(const PairDistances& distances, std::vector<Choice>& order) {
  const std::span<const std::int32_t> tokens = distances.tokens();
  const auto free = std::count(tokens.begin(), tokens.end(), PairDistances::kNobody);
  const std::size_t count = tokens.size() - static_cast<std::size_t>(free);
  if (order.size() == count) return;
  begin(distances, order);
  double farthest = approach_all(distances, order, count - order.size());
  while (order.size() < count) {
    poll_interrupt();
    const auto token = static_cast<std::int32_t>(
        best_first_with(nearest_.data(), tokens_.data(), nearest_.size(), farthest));
    order.push_back({token, farthest});
    take(distances, token);
    farthest = approach(distances, distances.row_of(token));
  }
}

void FarthestKeys::begin(const PairDistances& distances, const std::vector<Choice>& order) {
  const std::span<const std::int32_t> tokens = distances.tokens();
  nearest_.assign(tokens.size(), kUnreached);
  tokens_.assign(tokens.begin(), tokens.end());
  keys_.clear();
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    if (tokens[row] == PairDistances::kNobody) nearest_[row] = kTaken;
  }
  for (const Choice& choice : order) nearest_[distances.row_of(choice.token)] = kTaken;
  if (distances.are_kept()) return;
  std::size_t left = 0;
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    if (nearest_[row] == kTaken) continue;
    tokens_[left++] = tokens[row];
    keys_.push_back(distances.key(row));
  }
  tokens_.resize(left);
  nearest_.assign(left, kUnreached);
  distances_.resize(left);
}

/// Lowers what tokens have to all of the order, row by row of those chosen or of the `left` others.
double FarthestKeys::approach_all(const PairDistances& distances, const std::vector<Choice>& order,
                                  std::size_t left) {
  double farthest = kUnreached;
  if (!distances.are_kept() || order.size() <= left) {
    for (const Choice& choice : order) {
      farthest = approach(distances, distances.row_of(choice.token));
    }
    return farthest;
  }
  limits_.assign(nearest_.size(), kUnreached);
  for (const Choice& choice : order) limits_[distances.row_of(choice.token)] = kTaken;
  farthest = kTaken;
  for (std::size_t row = 0; row < nearest_.size(); ++row) {
    if (nearest_[row] == kTaken) continue;
    nearest_[row] = best_least(distances.of_row(row).data(), limits_.data(), limits_.size());
    farthest = std::max(farthest, nearest_[row]);
  }
  return farthest;
}

double FarthestKeys::approach(const PairDistances& distances, std::size_t row) {
  if (distances.are_kept()) {
    return best_lower(distances.of_row(row).data(), nearest_.data(), nearest_.size());
  }
  distances.to_keys(row, keys_, distances_.data());
  return best_lower(distances_.data(), nearest_.data(), nearest_.size());
}

void FarthestKeys::take(const PairDistances& distances, std::int32_t token) {
  if (distances.are_kept()) {
    nearest_[distances.row_of(token)] = kTaken;
    return;
  }
  const auto place =
      static_cast<std::size_t>(std::find(tokens_.begin(), tokens_.end(), token) - tokens_.begin());
  tokens_[place] = tokens_.back();
  nearest_[place] = nearest_.back();
  keys_[place] = keys_.back();
  tokens_.pop_back();
  nearest_.pop_back();
  keys_.pop_back();
}

}  // namespace kvsim
