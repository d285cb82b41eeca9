// Compiled without errno and traps of floating point, so that loops over slots become vector
// instructions. Every operation in them is rounded alike on each machine.

#include "policies/learned/token_features.h"

#include <algorithm>
#include <cmath>

#include "policies/learned/scoring_kernels.h"
#include "policies/parts/lane_sums.h"
#include "policies/parts/mean_rotation.h"

namespace kvsim {
namespace {

constexpr int kFirst = 4;  // tokens of the text that Feature `first` marks

template <class Vector>
double squared_norm(const Vector& vector) {
  return sum_in_lanes(vector.size(), [&](std::size_t d) {
    const double x = vector[d];
    return x * x;
  });
}

}  // namespace

FixedFeatures::FixedFeatures(const Scorer& scorer, std::optional<Rotation> rotation)
    : unrotated_(scorer.sees_rotation()),
      likens_(scorer.sees(FeatureKind::key_like_mean)),
      rotation_(rotation) {
  for (const Feature& feature : scorer.features) {
    if (feature.is_fixed()) features_.push_back(feature);
  }
}

void FixedFeatures::take_key(const Step& step) {
  const std::span<const float> recorded = step.keys[step.tokens.size() - 1];
  key_.assign(recorded.begin(), recorded.end());
  if (unrotated_) {
    MeanRotation(rotation_->inverse_frequency, rotation_->interleaved, -step.index).apply(key_);
  }
  if (!likens_) return;
  key_sum_.resize(key_.size(), 0);
  for (std::size_t d = 0; d < key_.size(); ++d) key_sum_[d] += key_[d];
}

double FixedFeatures::likeness(int index) {
  if (index == 0) return 1;
  const double product =
      sum_in_lanes(key_.size(), [&](std::size_t d) { return key_[d] * key_sum_[d]; });
  const double norms = std::sqrt(squared_norm(key_)) * std::sqrt(squared_norm(key_sum_));
  return norms == 0 ? 0 : product / norms;
}

std::span<const float> FixedFeatures::of_newest(const Step& step) {
  numbers_.clear();
  if (features_.empty()) return numbers_;
  const std::size_t newest = step.tokens.size() - 1;
  take_key(step);
  const auto add = [&](double number) { numbers_.push_back(static_cast<float>(number)); };
  for (const Feature& feature : features_) {
    switch (feature.kind) {
      case FeatureKind::key:
        for (const double x : key_) add(x);
        break;
      case FeatureKind::value:
        for (const float x : step.values[newest]) numbers_.push_back(x);
        break;
      case FeatureKind::key_norm:
        add(std::sqrt(squared_norm(key_)));
        break;
      case FeatureKind::value_norm:
        add(std::sqrt(squared_norm(step.values[newest])));
        break;
      case FeatureKind::key_like_mean:
        add(likeness(step.index));
        break;
      case FeatureKind::first:
        add(step.index < kFirst ? 1 : 0);
        break;
      case FeatureKind::position:
        add(std::log(1.0 + step.index));
        break;
      case FeatureKind::punctuation:
        add(step.kinds[newest] == TokenKind::punctuation ? 1 : 0);
        break;
      case FeatureKind::special:
        add(step.kinds[newest] == TokenKind::special ? 1 : 0);
        break;
      default:
        break;
    }
  }
  return numbers_;
}

ChangingFeatures::ChangingFeatures(const Scorer& scorer) {
  for (const Feature& feature : scorer.features) {
    if (feature.is_fixed()) continue;
    features_.push_back(feature);
    const auto same = [&](const Decayed& known) { return known.rate == feature.rate; };
    if (feature.is_decayed() && std::none_of(decayed_.begin(), decayed_.end(), same)) {
      decayed_.push_back({feature.rate, SlotRows<float>(2), {}});
    }
  }
  sum_ = SlotRows<double>(scorer.sees(FeatureKind::mean) ? 1 : 0);
  largest_ = SlotRows<float>(scorer.sees(FeatureKind::largest) ? 1 : 0);
  columns_.resize(features_.size());
}

void ChangingFeatures::remove(std::span<const std::size_t> slots) {
  sum_.remove(slots);
  largest_.remove(slots);
  for (Decayed& decayed : decayed_) decayed.sums.remove(slots);
}

void ChangingFeatures::add(const Step& step) {
  const std::size_t size = step.tokens.size();
  const float* const attention = step.attention.data();
  if (sum_.num_rows() > 0) {
    sum_[0].resize(size, 0);
    double* const sum = sum_[0].data();
    for (std::size_t i = 0; i < size; ++i) sum[i] += attention[i];
  }
  if (largest_.num_rows() > 0) {
    largest_[0].resize(size, 0);
    float* const largest = largest_[0].data();
    for (std::size_t i = 0; i < size; ++i) {
      largest[i] = attention[i] > largest[i] ? attention[i] : largest[i];
    }
  }
  for (Decayed& decayed : decayed_) {
    decayed.sums[0].resize(size, 0);
    decayed.sums[1].resize(size, 0);
    float* const sum = decayed.sums[0].data();
    float* const weight = decayed.sums[1].data();
    const float rate = decayed.rate;
    const float rest = 1 - rate;
    for (std::size_t i = 0; i < size; ++i) sum[i] = rate * sum[i] + rest * attention[i];
    for (std::size_t i = 0; i < size; ++i) weight[i] = rate * weight[i] + rest;
  }
  logs_.push_back(static_cast<float>(std::log(1.0 + static_cast<double>(logs_.size()))));
}

const std::vector<std::vector<float>>& ChangingFeatures::columns(const Step& step) {
  const std::size_t size = step.tokens.size();
  const std::int32_t* const tokens = step.tokens.data();
  for (Decayed& decayed : decayed_) {
    decayed.means.resize(size);
    float* const mean = decayed.means.data();
    const float* const sum = decayed.sums[0].data();
    const float* const weight = decayed.sums[1].data();
    for (std::size_t i = 0; i < size; ++i) mean[i] = sum[i] / weight[i];
  }
  adjacent_.assign(size, 0);
  for (std::size_t i = 0; i + 1 < size; ++i) adjacent_[i] = tokens[i + 1] - tokens[i] == 1 ? 1 : 0;
  for (std::size_t k = 0; k < features_.size(); ++k) {
    std::vector<float>& column = columns_[k];
    column.resize(size);
    switch (features_[k].kind) {
      case FeatureKind::now:
        column.assign(step.attention.begin(), step.attention.end());
        break;
      case FeatureKind::mean:
        for (std::size_t i = 0; i < size; ++i) {
          column[i] = static_cast<float>(sum_[0][i] / (step.index - tokens[i] + 1));
        }
        break;
      case FeatureKind::largest:
        column = largest_[0];
        break;
      case FeatureKind::age:
        for (std::size_t i = 0; i < size; ++i) {
          column[i] = logs_[static_cast<std::size_t>(step.index - tokens[i])];
        }
        break;
      case FeatureKind::decayed:
        column = decayed_of(features_[k]).means;
        break;
      case FeatureKind::neighbours:
        average_neighbours(decayed_of(features_[k]).means, column);
        break;
      default:
        break;
    }
    if (features_[k].kind != FeatureKind::age) take_eighth_roots(column);
  }
  return columns_;
}

const ChangingFeatures::Decayed& ChangingFeatures::decayed_of(const Feature& feature) const {
  return *std::find_if(decayed_.begin(), decayed_.end(),
                       [&](const Decayed& known) { return known.rate == feature.rate; });
}

void ChangingFeatures::average_neighbours(const std::vector<float>& means,
                                          std::vector<float>& column) const {
  const std::size_t size = means.size();
  const auto mean_of = [](float sum, float count) { return count > 0 ? sum / count : 0; };
  for (std::size_t i = 1; i + 1 < size; ++i) {
    column[i] = mean_of(adjacent_[i - 1] * means[i - 1] + adjacent_[i] * means[i + 1],
                        adjacent_[i - 1] + adjacent_[i]);
  }
  if (size == 1) column[0] = 0;
  if (size < 2) return;
  column[0] = adjacent_[0] * means[1];
  column[size - 1] = adjacent_[size - 2] * means[size - 2];
}

}  // namespace kvsim
