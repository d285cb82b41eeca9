#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "policies/parts/coins.h"

namespace kvsim {

/// M and mu of SubGen (Zandieh et al. 2024, Algorithm 1, UPDATEMATRIXPRODUCT): independent samples
/// of the tokens so far, each of which is a token with probability |v|^2 / mu (Lemma 1).
class MatrixProductSketch {
 public:
  struct Sample {
    std::int32_t token = 0;
    double squared_norm = 0;  ///< |v|^2
  };

  MatrixProductSketch(std::size_t num_samples, Coins coins)
      : num_samples_(num_samples), coins_(coins) {}

  void update(std::int32_t token, std::span<const float> value) {
    double squared_norm = 0;
    for (const double x : value) squared_norm += x * x;
    if (squared_norm == 0) return;  // probability 0; avoids 0 / 0 while mu is 0
    samples_.resize(num_samples_);
    const double probability = squared_norm / (mu_ + squared_norm);
    for (std::size_t i = 0; i < samples_.size(); ++i) {                             // line 25
      if (coins_.flip(token, i, probability)) samples_[i] = {token, squared_norm};  // line 26
    }
    mu_ += squared_norm;  // line 6
  }

  /// The weight of a sample's e^l v in the estimate of the sum over all tokens (line 29).
  double weight(const Sample& sample) const {
    return mu_ / (static_cast<double>(num_samples_) * sample.squared_norm);
  }

  /// Empty until the first nonzero value.
  std::span<const Sample> samples() const { return samples_; }

  std::size_t num_samples() const { return num_samples_; }

  double mu() const { return mu_; }

 private:
  std::size_t num_samples_;
  Coins coins_;
  double mu_ = 0;
  std::vector<Sample> samples_;
};

}  // namespace kvsim
