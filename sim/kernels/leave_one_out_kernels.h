#pragma once

#include <cstddef>

namespace kvsim {

/// Rows below are padded with zeros to a multiple of this. Every implementation gives the same
/// bits.
inline constexpr std::size_t kPadding = 8;

constexpr std::size_t padded_to_doubles(std::size_t count) {
  return (count + kPadding - 1) / kPadding * kPadding;
}

/// Rows of doubles, one after the other.
struct DoubleRows {
  const double* first;
  std::size_t count;
  std::size_t stride;  ///< a multiple of kPadding
};

/// product[i * stride + j] = <row i of a, row j of b>, which have equal strides.
void multiply_rows(const DoubleRows& a, const DoubleRows& b, double* product, std::size_t stride);

/// sum = the sum over i of weight[i] * row i.
void sum_rows(const DoubleRows& rows, const double* weight, double* sum);

/// to[i] += scale * from[i] for i < count, a multiple of kPadding.
void add_scaled_doubles(double scale, const double* from, std::size_t count, double* to);

/// The output of a query head at one step from a cache: ô = the sum of weight * value over the
/// tokens, divided by the sum of the weights.
struct CachedOutput {
  double weight_sum;  ///< above 0
  double square;      ///< |ô|²
  double with_error;  ///< <ô - o, ô>
};

/// A number per token of the cache, parallel.
struct TokenTerms {
  const double* weight;
  const double* numerator_product;  ///< <ô * weight_sum, v_j>
  const double* output_product;     ///< <o, v_j>
  const double* square;             ///< |v_j|²
};

/// A token is dominant in an output if all others together have less than this share of the weight.
/// What the output is without it must be computed from the others.
inline constexpr double kDominantRest = 1e-4;

constexpr bool is_dominant(double weight, double weight_sum) {
  return weight_sum - weight < kDominantRest * weight_sum;
}

/// change[j] += |ô' - o|² - |ô - o|², where ô' is the output without token j, for j < count, a
/// multiple of kPadding. Leaves out a token that is dominant, and returns whether there is one.
bool add_error_changes(const CachedOutput& output, const TokenTerms& tokens, std::size_t count,
                       double* change);

/// The same for <g, ô - o>², where g is any vector and `product` is <g, v_j>.
struct ProjectedOutput {
  double weight_sum;
  double cached;  ///< <g, ô>
  double error;   ///< <g, ô - o>
};
bool add_projected_changes(const ProjectedOutput& output, const double* weight,
                           const double* product, std::size_t count, double* change);

/// share[j] = y_j, where ô + y_j (ô - v_j) is the output without token j: its weight over that of
/// all others. 0 for a token that is dominant; returns whether there is one.
bool set_moved_shares(double weight_sum, const double* weight, std::size_t count, double* share);

/// change[j] += 2 a[j] * (constant - product[j]) for j < count, a multiple of kPadding.
void add_linear_changes(const double* a, double constant, const double* product, std::size_t count,
                        double* change);

/// change[j] += a[j] * b[j] * (constant - 2 product[j] + square[j]), likewise.
struct QuadraticTerms {
  const double* a;
  const double* b;
  const double* product;
  const double* square;
};
void add_quadratic_changes(double constant, const QuadraticTerms& terms, std::size_t count,
                           double* change);

}  // namespace kvsim
