#include "traces/synth/synth_downstream.h"

#include <cmath>
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

}  // namespace

SynthDownstream::SynthDownstream(const SynthOptions& options, int value_dim, int layer)
    : options_(options), value_dim_(value_dim), layer_(layer) {}

Matrix SynthDownstream::projection() const {
  const int rows = options_.query_heads * value_dim_;
  return normal_matrix(stream(options_, layer_, Part::projection), rows, options_.hidden,
                       1 / std::sqrt(rows));
}

std::vector<SynthDownstream::Rows> SynthDownstream::all_rows() {
  return {{Dataset::residual, &SynthOptions::hidden, &SynthDownstream::residual},
          {Dataset::mlp_activation, &SynthOptions::mlp_width, &SynthDownstream::mlp_activation}};
}

Matrix SynthDownstream::residual() const {
  return normal_matrix(stream(options_, layer_, Part::residual), options_.tokens, options_.hidden,
                       std::sqrt(layer_ + 1));
}

Matrix SynthDownstream::mlp_activation() const {
  RandomStream order = stream(options_, layer_, Part::ranks);
  std::vector<int> ranks(options_.mlp_width);
  std::iota(ranks.begin(), ranks.end(), 1);
  for (int last = options_.mlp_width - 1; last > 0; --last) {
    std::swap(ranks[last], ranks[order.below(static_cast<std::uint64_t>(last) + 1)]);
  }
  RandomStream random = stream(options_, layer_, Part::activation);
  Matrix activation(options_.tokens, options_.mlp_width);
  for (int token = 0; token < options_.tokens; ++token) {
    for (int neuron = 0; neuron < options_.mlp_width; ++neuron) {
      const bool is_active = random.uniform() * ranks[neuron] <= 1;
      activation(token, neuron) = is_active ? static_cast<float>(1 + random.uniform()) : 0;
    }
  }
  return activation;
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
