#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace kvsim {

/// How much the keys of a cache repeat each other (R-KV, Cai et al. 2025, arXiv 2505.24133, section
/// 3.3): of each key the mean cosine with all keys, where each key does not count the latest one
/// that is like it, so that one of several alike remains. Follows the cache: what arrives or leaves
/// takes a product with each key that stays.
class KeyRedundancy {
 public:
  /// Keys are alike if their cosine exceeds `threshold`. `falls_back`: a key that none is like does
  /// not count the first one of the cache, as in the authors' program.
  KeyRedundancy(double threshold, bool falls_back)
      : threshold_(threshold), falls_back_(falls_back) {}

  /// Takes over the cache: `tokens`, ascending, were in it before or are new.
  /// `key` gives the key of a slot, [head_dim].
  void follow(std::span<const std::int32_t> tokens,
              const std::function<std::span<const float>(std::size_t)>& key);

  /// The softmax of the mean cosines over the cache, parallel to the tokens of follow().
  std::vector<double> softmax_of_means() const;

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  /// A key of the cache.
  struct Key {
    std::int32_t token = 0;
    std::vector<double> direction;  // [head_dim], of length 1
    double sum = 0;                 // of its cosines with the other keys
    std::size_t latest = kNone;     // the latest slot with a key like it
  };

  double cosine(std::size_t a, std::size_t b) const;
  void remove(const std::vector<bool>& leaves);
  void compare(std::size_t slot);

  double threshold_;
  bool falls_back_;
  std::vector<Key> keys_;
};

}  // namespace kvsim
