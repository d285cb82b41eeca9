#include "traces/synth/synth_head.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvsim {
namespace {

int period(const SynthOptions& options) {
  if (options.retrieval_period > 0) return options.retrieval_period;
  return std::max(1, options.tokens / 4);
}

Eigen::MatrixXd normal_matrix(RandomStream random, int rows, int columns) {
  Eigen::MatrixXd matrix(rows, columns);
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) matrix(row, column) = random.normal();
  }
  return matrix;
}

/// Gram-Schmidt on random columns, two passes per column because one loses digits.
Eigen::MatrixXd orthonormal_basis(RandomStream random, int dim) {
  Eigen::MatrixXd basis = normal_matrix(random, dim, dim);
  for (int column = 0; column < dim; ++column) {
    const auto before = basis.leftCols(column);
    for (int pass = 0; pass < 2; ++pass) {
      basis.col(column) -= before * (before.transpose() * basis.col(column)).eval();
    }
    basis.col(column).normalize();
  }
  return basis;
}

/// Unit rows whose neighbours correlate by `correlation`: a first-order autoregression.
Eigen::MatrixXd autoregressive_rows(RandomStream random, int rows, int columns,
                                    double correlation) {
  Eigen::MatrixXd latent = normal_matrix(random, rows, columns);
  for (int row = 1; row < rows; ++row) {
    latent.row(row) = correlation * latent.row(row - 1) +
                      std::sqrt(1 - correlation * correlation) * latent.row(row);
  }
  latent.rowwise().normalize();
  return latent;
}

}  // namespace

enum class SynthHead::Part : std::uint64_t {
  basis,
  heavy,
  position,
  embedding,
  key_noise,
  query_noise,
  value
};

std::vector<std::int32_t> synth_text(const SynthOptions& options) {
  std::vector<std::int32_t> segment(period(options));
  std::iota(segment.begin(), segment.end(), 0);
  RandomStream random(options.seed, {});
  for (std::size_t left = segment.size(); left > 1; --left) {
    std::swap(segment[left - 1], segment[random.below(left)]);
  }
  std::vector<std::int32_t> text(options.tokens);
  for (std::size_t token = 0; token < text.size(); ++token) {
    text[token] = segment[token % segment.size()];
  }
  return text;
}

float synth_sink(const SynthOptions& options, int layer, int query_head) {
  constexpr std::uint64_t kSinks = 0x73696e6b;  // apart from all KV heads
  RandomStream random(options.seed, {static_cast<std::uint64_t>(layer), kSinks,
                                     static_cast<std::uint64_t>(query_head)});
  return static_cast<float>(*options.sink_logit + random.normal());
}

SynthHead::SynthHead(const SynthOptions& options, const std::vector<std::int32_t>& text, int layer,
                     int kv_head)
    : options_(options), text_(text), layer_(layer), kv_head_(kv_head) {
  assign_columns();
  basis_ = orthonormal_basis(stream(Part::basis), options.head_dim);
  position_ = autoregressive_rows(stream(Part::position), options.tokens, local_.count,
                                  options.local_decay);
  embedding_ = normal_matrix(stream(Part::embedding), period(options), retrieval_.count);
  embedding_.rowwise().normalize();
}

void SynthHead::assign_columns() {
  const int dim = options_.head_dim;
  constexpr int kSmallestDimToSplit = 6;
  if (dim < kSmallestDimToSplit) {
    sink_ = {0, 1};
    heavy_ = {0, std::min(2, dim)};
    local_ = retrieval_ = noise_ = {0, dim};
    return;
  }
  const int rest = dim - 3;
  sink_ = {0, 1};
  heavy_ = {1, 2};
  noise_ = {3, std::max(1, rest / 8)};
  local_ = {noise_.first + noise_.count, std::max(1, rest * 3 / 8)};
  retrieval_.first = local_.first + local_.count;
  retrieval_.count = dim - retrieval_.first;
}

RandomStream SynthHead::stream(Part part, int query_head) const {
  const auto coordinate = [](int number) { return static_cast<std::uint64_t>(number); };
  return RandomStream(options_.seed, {coordinate(layer_), coordinate(kv_head_),
                                      static_cast<std::uint64_t>(part), coordinate(query_head)});
}

Eigen::MatrixXd SynthHead::common_components(RandomStream noise) const {
  const double deviation = std::sqrt(options_.noise / std::sqrt(noise_.count));
  return std::sqrt(options_.local_strength) * position_ * columns(local_).transpose() +
         deviation * normal_matrix(noise, options_.tokens, noise_.count) *
             columns(noise_).transpose();
}

Eigen::MatrixXd SynthHead::heavy_directions() const {
  Eigen::MatrixXd directions(options_.tokens, options_.head_dim);
  for (int token = 0; token < options_.tokens; ++token) {
    const double angle = options_.drift * token / options_.tokens;
    directions.row(token) = std::cos(angle) * columns(heavy_).leftCols(1).transpose() +
                            std::sin(angle) * columns(heavy_).rightCols(1).transpose();
  }
  return directions;
}

Matrix SynthHead::key() const {
  Eigen::MatrixXd key = common_components(stream(Part::key_noise));
  const int sinks = std::min(options_.sinks, options_.tokens);
  key.topRows(sinks).rowwise() +=
      std::sqrt(options_.sink_strength) * columns(sink_).col(0).transpose();

  const Eigen::MatrixXd directions = heavy_directions();
  RandomStream heavy = stream(Part::heavy);
  for (int token = 0; token < options_.tokens; ++token) {
    const double mass = options_.heavy_strength * heavy.exponential(options_.heavy_exponent);
    key.row(token) += mass * directions.row(token);
  }
  for (int token = 1; token < options_.tokens; ++token) {
    key.row(token) += std::sqrt(options_.retrieval_strength) * embedding_.row(text_[token - 1]) *
                      columns(retrieval_).transpose();
  }
  return (std::pow(options_.head_dim, 0.25) * key).cast<float>();
}

Matrix SynthHead::value(int dim) const {
  return normal_matrix(stream(Part::value), options_.tokens, dim).cast<float>();
}

Matrix SynthHead::query(int query_head) const {
  Eigen::MatrixXd query = common_components(stream(Part::query_noise, query_head));
  query.rowwise() += std::sqrt(options_.sink_strength) * columns(sink_).col(0).transpose();
  query += heavy_directions();
  if (query_head < std::lround(options_.retrieval_share * options_.query_heads)) {
    for (int token = 0; token < options_.tokens; ++token) {
      query.row(token) += std::sqrt(options_.retrieval_strength) * embedding_.row(text_[token]) *
                          columns(retrieval_).transpose();
    }
  }
  return (std::pow(options_.head_dim, 0.25) * query).cast<float>();
}

}  // namespace kvsim
