#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <span>
#include <vector>

#include "traces/unit.h"

namespace kvsim {

/// The entry of a cache that stands for all tokens it has evicted (Rules::rest): their number N,
/// their mean key and their mean value, in fp64. It has the weight N exp(l), l being the logit of
/// the mean key, which is the mean of their logits before soft-capping.
class RestEntry {
 public:
  /// Of no token yet. Keeps a reference to `unit`, which may grow. Throws UsageError if the layer
  /// has a sliding window or chunks: evicted tokens would have to leave the sums.
  explicit RestEntry(const Unit& unit);

  /// The cache holds `tokens` at step `step`, ascending; all others up to `step` have been evicted.
  /// Steps come in order; some may be left out, and none brings a token back.
  void update(int step, std::span<const std::int32_t> tokens);

  /// N.
  int num_tokens() const { return num_tokens_; }

  /// ln of the entry's weight for a query [head_dim]; minus infinity without a token.
  double logit(const float* query) const;

  /// [value_dim]. Only with a token.
  Eigen::VectorXd value() const { return value_sum_ / num_tokens_; }

 private:
  void add(int token);

  const Unit& unit_;
  int num_tokens_ = 0;
  Eigen::VectorXd key_sum_;
  Eigen::VectorXd value_sum_;
  int last_step_ = -1;
  std::vector<std::int32_t> held_;  // at last_step_, ascending
};

}  // namespace kvsim
