#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace kvsim {

/// How much the keys of a cache repeat each other (R-KV, Cai et al. 2025, arXiv 2505.24133, section
/// 3.3): of each key the mean cosine with all keys, where each key does not count the latest one
/// that is like it, so that one of several alike remains. Follows the cache: what arrives takes a
/// product with each key that is there. Cosines are kept, or computed again where they are needed.
class KeyRedundancy {
 public:
  /// Keys are alike if their cosine exceeds `threshold`. `falls_back`: a key that none is like does
  /// not count the first one of the cache, as in the authors' program. Cosines of at most
  /// `most_kept` tokens are kept; of more, none.
  KeyRedundancy(double threshold, bool falls_back, std::size_t most_kept)
      : threshold_(threshold), falls_back_(falls_back), most_kept_(most_kept) {}

  /// What it holds per pair of tokens whose cosines are kept.
  static constexpr std::size_t kBytesPerPair = sizeof(double);

  /// Takes over the cache: `tokens`, ascending, were in it before or are new.
  /// `key` gives the key of a slot, [head_dim]. Returns the slots of the cache before whose tokens
  /// left, ascending.
  std::vector<std::size_t> follow(std::span<const std::int32_t> tokens,
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
    double latest_cosine = 0;       // with that one
    std::size_t row = kNone;        // of kept_
  };

  std::vector<double> compute(std::size_t slot, std::size_t first, std::size_t last) const;
  std::vector<double> cosines(std::size_t slot, std::size_t first, std::size_t last) const;
  void keep(std::size_t slot, const std::vector<double>& with_earlier);
  void make_room(std::size_t count);
  void remove(const std::vector<std::size_t>& left);
  void take_out(const std::vector<std::size_t>& left);
  void find_latest(std::size_t slot, const std::vector<bool>& leaves);
  void compare(std::size_t slot);

  double threshold_;
  bool falls_back_;
  std::size_t most_kept_;
  std::vector<Key> keys_;
  std::vector<const double*> directions_;  // of the keys
  std::size_t num_rows_ = 0;               // 0: no cosines are kept
  std::vector<double> kept_;               // cosines, [row, row]
  std::vector<std::size_t> free_rows_;
};

}  // namespace kvsim
