#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "traces/unit.h"

namespace kvsim::test_support {

/// The shape of a random unit.
struct UnitShape {
  int tokens = 64;
  int head_dim = 4;
  int value_dim = 4;
  int group = 1;
  double spread = 1.5;  ///< standard deviation of a logit
  int prompt_length = 0;
  int hidden = 0;            ///< columns of the output projection; 0: none, and no residual stream
  int gradient_samples = 0;  ///< of output_score_grad
  std::vector<Span> spans = {};
  std::optional<float> sink_logit = {};  ///< of the first query head; each next one has 1 more
  std::optional<int> attention_chunk = {};
  std::optional<int> selected = {};  ///< each step selects so many tokens by chance, itself or not
};

/// A unit of normally distributed vectors, rotated by two frequencies where the dimension allows;
/// equal arguments give equal units.
Unit random_unit(const UnitShape& shape, std::uint64_t seed);

/// Two layers of two KV heads each.
std::vector<Unit> random_units(const UnitShape& shape, std::uint64_t seed);

/// A unit in which all visible tokens are attended to equally.
Unit uniform_unit(const UnitShape& shape);

/// A one-query-head unit whose logits l[t,j] are exactly `logit(t, j)` for j <= t. Token j is the
/// only one with a key in direction j, so head_dim is `tokens`.
template <class Logit>
Unit unit_of_logits(int tokens, Logit logit) {
  Unit unit = random_unit({.tokens = tokens, .head_dim = tokens, .value_dim = 3}, 1);
  unit.scale = 1;
  unit.key = Matrix::Identity(tokens, tokens);
  unit.query[0].setZero();
  for (int t = 0; t < tokens; ++t) {
    for (int j = 0; j <= t; ++j) unit.query[0](t, j) = static_cast<float>(logit(t, j));
  }
  return unit;
}

}  // namespace kvsim::test_support
