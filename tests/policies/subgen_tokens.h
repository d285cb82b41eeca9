#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "policies/registry/spec.h"
#include "sim/base/random_bits.h"

namespace kvsim::policies_test {

using Vectors = std::vector<std::vector<float>>;

inline constexpr int kMuBytes = 8;
inline constexpr int kCountBytes = 4;

struct Tokens {
  Vectors keys;
  Vectors values;

  int count() const { return static_cast<int>(keys.size()); }
  Arrival arrival(int token) const {
    const auto i = static_cast<std::size_t>(token);
    return {token, keys[i], values[i]};
  }
};

// Coordinates even in [-2, 2]; every third value is zero.
inline Tokens random_tokens(int count, std::size_t dim = 4) {
  Tokens tokens;
  const auto coordinate = [](int token, std::size_t i) {
    return static_cast<float>(random_bits(random_bits(9, static_cast<std::uint64_t>(token)), i) >>
                              40) *
               0x1p-22F -
           2;
  };
  for (int token = 0; token < count; ++token) {
    std::vector<float>& key = tokens.keys.emplace_back();
    std::vector<float>& value = tokens.values.emplace_back();
    for (std::size_t i = 0; i < dim; ++i) {
      key.push_back(coordinate(token, i));
      value.push_back(token % 3 == 2 ? 0 : coordinate(token, dim + i));
    }
  }
  return tokens;
}

inline std::unique_ptr<Estimator> subgen(const std::string& params, int budget,
                                         std::uint64_t seed = 1) {
  return Spec("subgen:" + params).make_estimator({.budget = budget, .seed = seed});
}

// An entry's token, has_value, numerator and denominator.
using Held = std::tuple<int, bool, double, double>;

inline std::vector<Held> held(const Estimator& estimator) {
  std::vector<Held> entries;
  for (const Entry& entry : estimator.entries()) {
    entries.emplace_back(entry.token, entry.has_value, entry.numerator, entry.denominator);
  }
  return entries;
}

inline int num_vectors(const Estimator& estimator) {
  int sum = 0;
  for (const Entry& entry : estimator.entries()) sum += entry.has_value ? 2 : 1;
  return sum;
}

}  // namespace kvsim::policies_test
