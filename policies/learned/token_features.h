#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "policies/interface/policy.h"
#include "policies/interface/rotation.h"
#include "policies/learned/scorer.h"
#include "policies/learned/slot_rows.h"

namespace kvsim {

/// The features that are fixed when a token arrives.
class FixedFeatures {
 public:
  FixedFeatures(const Scorer& scorer, std::optional<Rotation> rotation);

  /// Those of the token that has just arrived, in the order of the scorer's columns. Call it at
  /// every step: it counts the keys. Valid until the next call.
  std::span<const float> of_newest(const Step& step);

 private:
  void take_key(const Step& step);
  double likeness(int index);

  std::vector<Feature> features_;
  bool unrotated_;
  bool likens_;
  std::optional<Rotation> rotation_;
  std::vector<double> key_;      // of the newest token, rotated back if the scorer says so
  std::vector<double> key_sum_;  // of all keys so far
  std::vector<float> numbers_;
};

/// The features that change at every step, of the tokens in the cache.
class ChangingFeatures {
 public:
  explicit ChangingFeatures(const Scorer& scorer);

  /// Call both at every step: `slots` have left since the last one; then the step's attention.
  void remove(std::span<const std::size_t> slots);
  void add(const Step& step);

  /// The columns after that step, in the order of the scorer's, [tokens in the cache] each.
  const std::vector<std::vector<float>>& columns(const Step& step);

 private:
  /// Per slot, of one rate R: e = R e + (1 - R) p and the sum of its weights, d = R d + (1 - R).
  struct Decayed {
    float rate;
    SlotRows<float> sums;      // e, d
    std::vector<float> means;  // e / d
  };

  const Decayed& decayed_of(const Feature& feature) const;
  void average_neighbours(const std::vector<float>& means, std::vector<float>& column) const;

  std::vector<Feature> features_;
  SlotRows<double> sum_;     // of attention since arrival
  SlotRows<float> largest_;  // attention
  std::vector<Decayed> decayed_;
  std::vector<float> adjacent_;  // 1 where the next slot holds the next token of the text, else 0
  std::vector<float> logs_;      // log(1 + age)
  std::vector<std::vector<float>> columns_;
};

}  // namespace kvsim
