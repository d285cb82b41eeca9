// Rotated at random, the coordinates of any unit vector are distributed alike, so that one table of
// levels serves all (TurboQuant: Zandieh et al. 2025, arXiv 2504.19874, Algorithm 1). Products with
// restored vectors are too small on average. With `residual` a key has one bit less per coordinate,
// and the signs of a random projection of what is missing: products are then right on average
// (Algorithm 2). The estimate is linear in the query, so a key that gives it is restored:
//   key + |rest| sqrt(pi / 2) / d * S^T sign(S rest).

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "policies/interface/policy_info.h"
#include "policies/interface/store_combinator.h"
#include "policies/parts/half.h"
#include "policies/parts/min_max_codes.h"
#include "policies/parts/unit_vector_levels.h"
#include "sim/base/random_bits.h"

namespace kvsim {
namespace {

struct TurboquantSettings {
  int bits = 3;
  bool keeps_residual = true;
};

using Vector = std::vector<double>;

/// A square matrix of independent normal numbers (Box and Muller 1958), row by row.
std::vector<Vector> normal_matrix(int dim, std::uint64_t seed) {
  std::vector<Vector> rows(static_cast<std::size_t>(dim), Vector(static_cast<std::size_t>(dim)));
  const auto uniform = [](std::uint64_t bits) {  // in (0, 1)
    return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
  };
  std::uint64_t draw = 0;
  for (Vector& row : rows) {
    for (double& x : row) {
      const double radius = std::sqrt(-2 * std::log(uniform(random_bits(seed, draw))));
      x = radius * std::cos(2 * std::numbers::pi * uniform(random_bits(seed, draw + 1)));
      draw += 2;
    }
  }
  return rows;
}

double product(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// A random rotation or reflection, uniform among all (Stewart 1980): Gram and Schmidt's method on
/// normal numbers, twice for rounding.
std::vector<Vector> random_rotation(int dim, std::uint64_t seed) {
  std::vector<Vector> rows = normal_matrix(dim, seed);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t pass = 0; pass < 2; ++pass) {
      for (std::size_t j = 0; j < i; ++j) {
        const double share = product(rows[i], rows[j]);
        for (std::size_t c = 0; c < rows[i].size(); ++c) rows[i][c] -= share * rows[j][c];
      }
      const double length = std::sqrt(product(rows[i], rows[i]));
      for (double& x : rows[i]) x /= length;
    }
  }
  return rows;
}

Vector applied(const std::vector<Vector>& matrix, const Vector& x) {
  Vector result;
  for (const Vector& row : matrix) result.push_back(product(row, x));
  return result;
}

Vector applied_transposed(const std::vector<Vector>& matrix, const Vector& x) {
  Vector result(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t c = 0; c < x.size(); ++c) result[c] += matrix[i][c] * x[i];
  }
  return result;
}

/// Quantises the vectors of one kind, keys or values.
class TurboquantCoder {
 public:
  TurboquantCoder(int dim, int element_bytes, int bits, bool keeps_residual, std::uint64_t seed)
      : is_half_(element_bytes == 2),
        rotation_(random_rotation(dim, random_bits(seed, "rotation"))),
        levels_(unit_vector_levels(dim, keeps_residual ? bits - 1 : bits)) {
    if (keeps_residual) projection_ = normal_matrix(dim, random_bits(seed, "projection"));
  }

  void round(std::span<float> vector) const {
    Vector x(vector.begin(), vector.end());
    const double norm = std::sqrt(product(x, x));
    if (norm == 0) return;
    for (double& number : x) number /= norm;
    Vector coordinates = applied(rotation_, x);
    for (double& coordinate : coordinates) coordinate = nearest_level(coordinate);
    Vector restored = applied_transposed(rotation_, coordinates);
    if (!projection_.empty()) add_residual(x, restored);
    for (std::size_t c = 0; c < vector.size(); ++c) {
      vector[c] = static_cast<float>(stored(norm) * restored[c]);
    }
  }

 private:
  double stored(double number) const {
    const auto rounded = static_cast<float>(number);
    return is_half_ ? round_to_half(rounded) : rounded;
  }

  double nearest_level(double x) const {
    const auto above = std::lower_bound(levels_.begin(), levels_.end(), x);
    if (above == levels_.begin()) return *above;
    if (above == levels_.end()) return levels_.back();
    return x - above[-1] <= *above - x ? above[-1] : *above;
  }

  void add_residual(const Vector& x, Vector& restored) const {
    Vector rest = x;
    for (std::size_t c = 0; c < rest.size(); ++c) rest[c] -= restored[c];
    Vector signs = applied(projection_, rest);
    for (double& sign : signs) sign = sign < 0 ? -1 : 1;
    const double length = stored(std::sqrt(product(rest, rest)));
    const double factor = length * std::sqrt(kHalfPi) / static_cast<double>(x.size());
    const Vector direction = applied_transposed(projection_, signs);
    for (std::size_t c = 0; c < rest.size(); ++c) restored[c] += factor * direction[c];
  }

  static constexpr double kHalfPi = std::numbers::pi / 2;

  bool is_half_;
  std::vector<Vector> rotation_;
  const std::vector<double>& levels_;
  std::vector<Vector> projection_;  // empty: the residual is not kept
};

std::size_t token_bytes(const VectorShape& shape, const TurboquantSettings& settings) {
  const auto dim = static_cast<std::size_t>(shape.head_dim);
  const auto key_bytes = static_cast<std::size_t>(shape.key_bytes);
  const std::size_t key = settings.keeps_residual ? bytes_of_codes(dim, settings.bits - 1) +
                                                        bytes_of_codes(dim, 1) + 2 * key_bytes
                                                  : bytes_of_codes(dim, settings.bits) + key_bytes;
  return key + bytes_of_codes(static_cast<std::size_t>(shape.value_dim), settings.bits) +
         static_cast<std::size_t>(shape.value_bytes);
}

class TurboquantStore final : public Store {
 public:
  TurboquantStore(const StoreContext& context, const TurboquantSettings& settings)
      : Store(context),
        settings_(settings),
        keys_(shape().head_dim, shape().key_bytes, settings.bits, settings.keeps_residual,
              random_bits(context.seed, "turboquant keys")),
        values_(shape().value_dim, shape().value_bytes, settings.bits, false,
                random_bits(context.seed, "turboquant values")) {}

  void settle(const StoredStep& step) override {
    bytes_ = step.held.size() * (step.is_whole ? shape().bytes() : token_bytes(shape(), settings_));
    if (step.is_whole) return;
    const auto first = std::lower_bound(step.held.begin(), step.held.end(), end_);
    for (auto token = first; token != step.held.end(); ++token) {
      keys_.round(key_row(*token));
      values_.round(value_row(*token));
    }
    end_ = step.index + 1;
  }

  std::size_t bytes() const override { return bytes_; }

 private:
  TurboquantSettings settings_;
  TurboquantCoder keys_, values_;
  std::int32_t end_ = 0;  // tokens before it are quantised
  std::size_t bytes_ = 0;
};

class Turboquant final : public StoreKind {
 public:
  explicit Turboquant(const TurboquantSettings& settings) : settings_(settings) {}

  std::unique_ptr<Store> make(const StoreContext& context) const override {
    return std::make_unique<TurboquantStore>(context, settings_);
  }

  std::size_t bytes(const VectorShape& shape, int tokens, int) const override {
    return static_cast<std::size_t>(tokens) * token_bytes(shape, settings_);
  }

 private:
  TurboquantSettings settings_;
};

void store_as_turboquant(Rules& rules, const Params& params, const Context&) {
  rules.store = std::make_shared<Turboquant>(TurboquantSettings{
      .bits = params.integer("bits"), .keeps_residual = params.choice("residual") == "yes"});
}

std::string why_not_turboquant(const PolicyInfo& policy, const Rules& rules, const Params&) {
  return why_not_stored(policy, rules);
}

}  // namespace

CombinatorInfo turboquant_combinator() {
  return {
      .name = "turboquant",
      .does = "keys and values are rotated at random and kept as levels of a few bits",
      .source = "Zandieh et al. 2025 (TurboQuant, arXiv 2504.19874), Algorithms 1 and 2",
      .differences =
          "the authors' program is not public and was not run; levels equal those of "
          "tonbistudio/turboquant-pytorch. Channels with outliers have no bits of their own, as "
          "they have in section 4.3. Norms have the recorded precision; matrices follow from "
          "the seed and take no bytes",
      .params = {Param::integer("bits", 3, 1, 8, "bits per coordinate"),
                 Param::choice("residual", {"yes", "no"},
                               "whether one of a key's bits is a sign of the residual, for "
                               "products that are right on average")},
      .change = store_as_turboquant,
      .why_not = why_not_turboquant};
}

}  // namespace kvsim
