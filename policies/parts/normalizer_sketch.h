#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "policies/parts/coins.h"

namespace kvsim {

/// D of SubGen (Zandieh et al. 2024, Algorithm 1, UPDATESOFTMAXNORMALIZER): clusters of keys with
/// uniform samples of each (Lemma 2). It departs from the paper once there are `most_clusters`
/// clusters: a key farther than delta from all of them then joins the nearest, which breaks
/// property 3 of Lemma 2.
class NormalizerSketch {
 public:
  struct Cluster {
    std::int32_t representative = 0;    ///< the token whose key is x
    std::vector<std::int32_t> samples;  ///< S, of t tokens
    std::int64_t count = 0;             ///< n
  };

  NormalizerSketch(double delta, std::size_t num_samples, std::size_t most_clusters, Coins coins)
      : delta_(delta), num_samples_(num_samples), most_clusters_(most_clusters), coins_(coins) {}

  /// Tokens arrive in ascending order.
  void update(std::int32_t token, std::span<const float> key) {
    const Nearest nearest = nearest_cluster(key);                            // line 12
    if (nearest.distance <= delta_ || clusters_.size() == most_clusters_) {  // line 13
      if (nearest.distance > delta_) ++far_keys_;
      Cluster& cluster = clusters_[nearest.cluster];
      ++cluster.count;                                  // line 14
      for (std::size_t j = 0; j < num_samples_; ++j) {  // line 16
        const double probability = 1 / static_cast<double>(cluster.count);
        if (coins_.flip(token, j, probability)) cluster.samples[j] = token;  // line 17
      }
    } else {
      clusters_.push_back({token, std::vector(num_samples_, token), 1});  // lines 20 and 21
      representatives_.insert(representatives_.end(), key.begin(), key.end());
    }
  }

  /// The weight of a sample's e^l in the estimate of the sum over all tokens (line 30).
  double weight(const Cluster& cluster) const {
    return static_cast<double>(cluster.count) / static_cast<double>(num_samples_);
  }

  /// In the order in which they were created, which is ascending by representative.
  std::span<const Cluster> clusters() const { return clusters_; }

  std::size_t num_samples() const { return num_samples_; }

  /// Tokens so far that joined a cluster farther than delta.
  std::int64_t far_keys() const { return far_keys_; }

  bool is_representative(std::int32_t token) const {
    const auto found = std::lower_bound(
        clusters_.begin(), clusters_.end(), token,
        [](const Cluster& cluster, std::int32_t x) { return cluster.representative < x; });
    return found != clusters_.end() && found->representative == token;
  }

 private:
  struct Nearest {
    std::size_t cluster = 0;
    double distance = std::numeric_limits<double>::infinity();
  };

  Nearest nearest_cluster(std::span<const float> key) const {
    Nearest nearest;
    for (std::size_t i = 0; i < clusters_.size(); ++i) {
      const double distance = squared_distance(key, &representatives_[i * key.size()]);
      if (distance < nearest.distance) nearest = {i, distance};
    }
    nearest.distance = std::sqrt(nearest.distance);
    return nearest;
  }

  // Partial sums let the compiler use vector instructions.
  static double squared_distance(std::span<const float> key, const float* representative) {
    std::array<double, 8> sums{};
    std::size_t i = 0;
    const auto add = [&](std::size_t sum) {
      const double difference = static_cast<double>(key[i + sum]) - representative[i + sum];
      sums[sum] += difference * difference;
    };
    for (; i + sums.size() <= key.size(); i += sums.size()) {
      for (std::size_t sum = 0; sum < sums.size(); ++sum) add(sum);
    }
    for (; i < key.size(); ++i) add(0);
    return std::accumulate(sums.begin(), sums.end(), 0.0);
  }

  double delta_;
  std::size_t num_samples_;
  std::size_t most_clusters_;
  Coins coins_;
  std::vector<Cluster> clusters_;
  std::int64_t far_keys_ = 0;
  std::vector<float> representatives_;  // [clusters, head_dim]: their keys
};

}  // namespace kvsim
