#include "tests/support/units.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

namespace kvsim::test_support {
namespace {

// Sums of uniform numbers: unlike std::normal_distribution the same in every standard library.
Matrix normal_matrix(int rows, int cols, double deviation, std::mt19937_64& bits) {
  Matrix matrix(rows, cols);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < cols; ++c) {
      double sum = 0;
      for (int i = 0; i < 12; ++i) sum += static_cast<double>(bits() >> 11) * 0x1p-53;
      matrix(r, c) = static_cast<float>(deviation * (sum - 6));
    }
  }
  return matrix;
}

std::shared_ptr<const SelectedTokens> random_selection(int num_tokens, int count,
                                                       std::mt19937_64& bits) {
  auto selected = std::make_shared<SelectedTokens>();
  for (int step = 0; step < num_tokens; ++step) {
    std::set<std::int32_t> tokens;
    const auto wanted = static_cast<std::size_t>(std::min(count, step + 1));
    while (tokens.size() < wanted) {
      tokens.insert(static_cast<std::int32_t>(bits() % static_cast<std::uint64_t>(step + 1)));
    }
    selected->add(std::vector(tokens.begin(), tokens.end()));
  }
  return selected;
}

}  // namespace

Unit random_unit(const UnitShape& shape, std::uint64_t seed) {
  std::mt19937_64 bits(seed);
  Unit unit;
  unit.name = {"random", 1, 2};
  unit.prompt_length = shape.prompt_length;
  unit.spans = shape.spans;
  unit.scale = static_cast<float>(1 / std::sqrt(shape.head_dim));
  unit.attention_chunk = shape.attention_chunk;
  for (int h = 0; h < shape.group; ++h) {
    unit.query.push_back(normal_matrix(shape.tokens, shape.head_dim, shape.spread, bits));
    if (shape.sink_logit) unit.sink_logit.push_back(*shape.sink_logit + static_cast<float>(h));
  }
  unit.key = normal_matrix(shape.tokens, shape.head_dim, 1, bits);
  unit.value = normal_matrix(shape.tokens, shape.value_dim, 1, bits);
  // Outputs near zero would turn rounding into large relative errors.
  unit.value.col(0).array() += 2;
  unit.rope.emplace();
  unit.rope->style = "half";
  if (shape.head_dim >= 2) unit.rope->inverse_frequency.push_back(1);
  if (shape.head_dim >= 4) unit.rope->inverse_frequency.push_back(0.1);
  for (int h = 0; h < shape.group && shape.hidden > 0; ++h) {
    unit.output_projection.push_back(normal_matrix(shape.value_dim, shape.hidden, 1, bits));
  }
  for (int t = 0; t < shape.tokens && shape.hidden > 0; ++t) unit.residual_square.push_back(t + 1);
  for (int sample = 0; sample < shape.gradient_samples; ++sample) {
    std::vector<Matrix>& heads = unit.output_score_grad.emplace_back();
    for (int h = 0; h < shape.group; ++h) {
      heads.push_back(normal_matrix(shape.tokens, shape.value_dim, 0.1, bits));
    }
  }
  if (shape.selected) unit.selected = random_selection(shape.tokens, *shape.selected, bits);
  return unit;
}

std::vector<Unit> random_units(const UnitShape& shape, std::uint64_t seed) {
  std::vector<Unit> units;
  for (const int layer : {0, 1}) {
    for (const int kv_head : {0, 1}) {
      units.push_back(random_unit(shape, 1000 * seed + units.size()));
      units.back().name = {"random", layer, kv_head};
    }
  }
  return units;
}

Unit uniform_unit(const UnitShape& shape) {
  Unit unit = random_unit(shape, 3);
  for (Matrix& query : unit.query) query.setZero();
  return unit;
}

}  // namespace kvsim::test_support
