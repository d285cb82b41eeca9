#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvsim {

/// What a scorer reads of a token. Those before `now` are fixed when the token arrives.
enum class FeatureKind {
  key,            ///< the key, [head_dim]
  value,          ///< the value, [value_dim]
  key_norm,       ///< L2
  value_norm,     ///< L2
  key_like_mean,  ///< cosine of the key to the mean of all keys so far
  first,          ///< 1 for the first four tokens of the text, else 0
  position,       ///< log(1 + text position)
  punctuation,    ///< 1 for a token of that kind, else 0
  special,        ///< 1 for a token of that kind, else 0
  now,            ///< attention of the step
  mean,           ///< mean attention per step since arrival
  largest,        ///< largest attention so far
  age,            ///< log(1 + steps since arrival)
  decayed,        ///< mean attention since arrival, each step weighted `rate` times the next one
  neighbours      ///< mean of the same over the text neighbours that the cache holds
};

struct Feature {
  FeatureKind kind = FeatureKind::now;
  float rate = 0;  ///< of decayed and neighbours, in (0, 1)

  bool is_fixed() const { return kind < FeatureKind::now; }
  bool is_decayed() const {
    return kind == FeatureKind::decayed || kind == FeatureKind::neighbours;
  }
};

/// The feature of that name: "key_norm", "decayed:0.98". Empty: there is none, or its rate is not
/// between 0 and 1.
std::optional<Feature> find_feature(std::string_view name);

/// The names of all features, with a rate where one follows.
std::vector<std::string> feature_names();

/// A trained scorer of tokens, or one for each layer or KV head: what a file holds
/// (policies/learned/README.md). N scorers, F columns of features.
struct Scorer {
  enum class Kind { linear, mlp, trees };
  enum class Reach { model, layer, head };  ///< what one scorer is for

  std::string file;    ///< as it was named
  std::string sha256;  ///< of its bytes

  Kind kind = Kind::linear;
  Reach reach = Reach::model;
  std::vector<Feature> features;
  int layers = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int value_dim = 0;
  bool unrotated = false;  ///< keys are rotated back to position 0

  std::size_t units = 0;  ///< U of an mlp, T of trees
  int depth = 0;          ///< E of trees

  std::vector<float> weights;         ///< linear [N, F], mlp [N, U, F]
  std::vector<float> hidden_bias;     ///< mlp [N, U]
  std::vector<float> output_weights;  ///< mlp [N, U]
  std::vector<float> bias;            ///< [N]

  std::vector<std::int32_t> split_feature;  ///< trees [N, T, 2^E - 1]: a column
  std::vector<float> split_threshold;       ///< trees [N, T, 2^E - 1]
  std::vector<float> leaf;                  ///< trees [N, T, 2^E]

  std::size_t num_scorers() const;  ///< N
  std::size_t columns_of(const Feature& feature) const;
  std::size_t num_columns() const;                     ///< F
  std::size_t index_of(int layer, int kv_head) const;  ///< of the scorer, among N
  bool sees(FeatureKind wanted) const;
  bool sees_rotation() const;  ///< some feature reads keys that are rotated back
};

}  // namespace kvsim
