#include "traces/synth/synth_downstream.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "traces/synth/random_stream.h"

namespace kvsim {
namespace {

enum class Part : std::uint64_t { projection, residual, gradient, ranks, activation };

/// More coordinates than the streams of the heads have, so none is used twice.
RandomStream stream(const SynthOptions& options, int layer, Part part, int sample = 0,
                    int head = 0) {
  const auto coordinate = [](int number) { return static_cast<std::uint64_t>(number); };
  return RandomStream(options.seed, {coordinate(layer), static_cast<std::uint64_t>(part),
                                     coordinate(sample), coordinate(head), 0});
}

Matrix normal_matrix(RandomStream random, int rows, int columns, double deviation) {
  Matrix matrix(rows, columns);
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      matrix(row, column) = static_cast<float>(deviation * random.normal());
    }
  }
  return matrix;
}

/// Normal rows whose length differs from token to token as e^normal does.
Matrix gradient(RandomStream random, int tokens, int dim) {
  constexpr double kTypicalLength = 0.1;
  Matrix matrix(tokens, dim);
  for (int token = 0; token < tokens; ++token) {
    const double deviation = kTypicalLength * std::exp(random.normal()) / std::sqrt(dim);
    for (int column = 0; column < dim; ++column) {
      matrix(token, column) = static_cast<float>(deviation * random.normal());
    }
  }
  return matrix;
}

Matrix residual(const SynthOptions& options, int layer) {
  return normal_matrix(stream(options, layer, Part::residual), options.tokens, options.hidden,
                       std::sqrt(layer + 1));
}

/// The neuron of rank r = 1, 2, .. is active at a token with probability 1 / r, and then gives 1 to
/// 2, else 0. Neurons stand in random order.
Matrix mlp_activation(const SynthOptions& options, int layer) {
  RandomStream order = stream(options, layer, Part::ranks);
  std::vector<int> ranks(options.mlp_width);
  std::iota(ranks.begin(), ranks.end(), 1);
  for (int last = options.mlp_width - 1; last > 0; --last) {
    std::swap(ranks[last], ranks[order.below(static_cast<std::uint64_t>(last) + 1)]);
  }
  RandomStream random = stream(options, layer, Part::activation);
  Matrix activation(options.tokens, options.mlp_width);
  for (int token = 0; token < options.tokens; ++token) {
    for (int neuron = 0; neuron < options.mlp_width; ++neuron) {
      const bool is_active = random.uniform() * ranks[neuron] <= 1;
      activation(token, neuron) = is_active ? static_cast<float>(1 + random.uniform()) : 0;
    }
  }
  return activation;
}

constexpr SynthDownstream::Rows kRows[] = {
    {Dataset::residual, &SynthOptions::hidden, residual},
    {Dataset::mlp_activation, &SynthOptions::mlp_width, mlp_activation},
};

}  // namespace

SynthDownstream::SynthDownstream(const SynthOptions& options, int value_dim, int layer)
    : options_(options), value_dim_(value_dim), layer_(layer) {}

Matrix SynthDownstream::projection() const {
  const int rows = options_.query_heads * value_dim_;
  return normal_matrix(stream(options_, layer_, Part::projection), rows, options_.hidden,
                       1 / std::sqrt(rows));
}

std::span<const SynthDownstream::Rows> SynthDownstream::all_rows() { return kRows; }

Matrix SynthDownstream::rows(Dataset dataset) const {
  const auto* const found = std::find_if(std::begin(kRows), std::end(kRows),
                                         [&](const Rows& rows) { return rows.dataset == dataset; });
  return found->make(options_, layer_);
}

std::vector<std::vector<Matrix>> SynthDownstream::gradients() const {
  std::vector<std::vector<Matrix>> samples(options_.gradient_samples);
  for (int sample = 0; sample < options_.gradient_samples; ++sample) {
    for (int head = 0; head < options_.query_heads; ++head) {
      samples[sample].push_back(gradient(stream(options_, layer_, Part::gradient, sample, head),
                                         options_.tokens, value_dim_));
    }
  }
  return samples;
}

}  // namespace kvsim
