#pragma once

#include <span>
#include <vector>

#include "sim/attention/attention.h"

namespace kvsim {

/// The attention to pages that approximate logits give: softmax per query head, summed over the
/// heads of the group, as kvsim sums the exact one.
class ApproximateAttention {
 public:
  /// `unit` has to outlive the object. `page` is in tokens.
  ApproximateAttention(const Unit& unit, int page) : unit_(unit), page_(page) {}

  /// Begins a step.
  void begin(int step);

  /// The first token that the step sees.
  int first() const { return first_; }

  /// For the caller to fill in: the logits of one query head, scaled, before soft-capping, of the
  /// tokens from first() to the step.
  std::vector<float>& logits() { return logits_; }

  /// Adds the attention of query head `head`, whose logits are there.
  void add(int head);

  /// Per page before that of the step.
  std::span<const double> pages() const { return pages_; }

 private:
  const Unit& unit_;
  int page_;
  int step_ = 0;
  int first_ = 0;
  std::vector<float> logits_;
  std::vector<float> weights_;
  std::vector<double> pages_;
};

}  // namespace kvsim
