#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvsim {

/// A token on its way into an estimator.
struct Arrival {
  int token = 0;  ///< text position
  std::span<const float> key;
  std::span<const float> value;
  int room = 0;  ///< most vectors, keys and values together, that may be held afterwards
};

/// Vectors of one token that an estimator holds: its key, and its value too or not.
struct Entry {
  std::int32_t token = 0;  ///< text position
  bool has_value = false;  ///< counts as a second vector
  double numerator = 0;    ///< w, weight of e^l v; only with a value
  double denominator = 0;  ///< u, weight of e^l
};

/// Estimates attention from entries instead of keeping a subset of the tokens: with l the logit of
/// a token's key, the output is sum(w e^l v) / sum(u e^l). One object follows one replay of one
/// unit. Tokens arrive one by one, each before the attention of its own step.
class Estimator {
 public:
  virtual ~Estimator() = default;

  virtual void update(const Arrival& arrival) = 0;

  /// Everything that is held, one entry per token, ascending.
  virtual std::span<const Entry> entries() const = 0;

  /// What is held beside vectors: counters, sums.
  virtual std::size_t counter_bytes() const = 0;
};

}  // namespace kvsim
