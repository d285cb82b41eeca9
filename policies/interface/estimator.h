#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace kvsim {

/// One arriving token, as an estimator sees it.
struct Arrival {
  int token = 0;                 ///< text position
  std::span<const float> key;    ///< [head_dim], as recorded
  std::span<const float> value;  ///< [value_dim]
};

/// What an estimator made of its parameters and its budget, and what came of it, by name.
using Amounts = std::map<std::string, std::int64_t>;

/// What an estimator holds of one token: its key, possibly its value, and their weights.
struct Entry {
  std::int32_t token = 0;  ///< text position
  bool has_value = false;  ///< counts as a second vector
  double numerator = 0;    ///< w, weight of e^l v; only with a value
  double denominator = 0;  ///< u, weight of e^l
};

/// Estimates attention from weighted entries instead of keeping a subset of the tokens. With l the
/// logit of an entry's key, the output is sum(w e^l v) / sum(u e^l) (SubGen, Zandieh et al. 2024,
/// Algorithm 1). One object follows one replay of one unit. Tokens arrive one by one, each before
/// the attention of its own step. It never holds more than Context::budget vectors, keys plus
/// values; its constructor throws UsageError for parameters that this budget has no room for.
class Estimator {
 public:
  virtual ~Estimator() = default;

  virtual void update(const Arrival& arrival) = 0;

  /// All entries, one per token, ascending by token.
  virtual std::span<const Entry> entries() const = 0;

  /// The bytes that counters and sums take in addition to the vectors.
  virtual std::size_t counter_bytes() const = 0;

  /// What ran, as opposed to what was asked for.
  virtual Amounts amounts() const { return {}; }
};

}  // namespace kvsim
