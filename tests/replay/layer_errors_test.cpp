// Errors of whole layers, against their definitions: design of the table `layer_error`.

#include <catch2/catch.hpp>
#include <set>

#include "sim/protocol/measured_steps.h"
#include "tests/support/reference_replay.h"
#include "tests/support/units.h"

namespace kvsim::layer_errors_test {

using namespace test_support;
using Approx = Catch::Detail::Approx;

constexpr UnitShape kShape{.tokens = 70,
                           .head_dim = 4,
                           .value_dim = 5,
                           .group = 2,
                           .prompt_length = 20,
                           .hidden = 37,
                           .gradient_samples = 3};

/// The output of a cache that attends to what `outcome` says, less that of the full cache.
Eigen::VectorXd delta(const Unit& unit, const ReferenceAttention& head, const Outcome& outcome,
                      int step) {
  const Trajectory& trajectory = outcome.trajectory;
  std::vector<int> tokens;
  if (trajectory.selected_begin.empty()) {
    for (int j = 0; j <= step; ++j) {
      if (trajectory.evicted_after[j] >= step) tokens.push_back(j);
    }
  } else {
    const auto begin = trajectory.selected.begin();
    tokens.assign(begin + trajectory.selected_begin[step],
                  begin + trajectory.selected_begin[step + 1]);
  }
  const std::vector<double> cached =
      weighted_value(unit, tokens, softmax(head.logit[step], tokens, head.sink));
  Eigen::VectorXd difference(unit.value.cols());
  for (int d = 0; d < difference.size(); ++d) difference[d] = cached[d] - head.output[step][d];
  return difference;
}

struct Expected {
  double projected_error = 0;
  double residual = 0;
  double predicted_kl = 0;
};

Expected by_definition(std::span<const Unit> layer, std::span<const Outcome> outcomes,
                       const ReplayOptions& options) {
  Expected sums;
  int steps = 0;
  std::vector<ReferenceUnit> references;
  for (const Unit& unit : layer) references.emplace_back(unit);
  const int num_tokens = layer.front().num_tokens();
  const int first = options.protocol.mode == Mode::prefill ? layer.front().prompt_length : 0;
  const MeasuredSteps measured(options.protocol, layer.front().prompt_length, num_tokens);
  for (int step = first; step < num_tokens; ++step) {
    if (!measured.takes_error(step)) continue;
    ++steps;
    Eigen::VectorXd projected = Eigen::VectorXd::Zero(kShape.hidden);
    for (std::size_t u = 0; u < layer.size(); ++u) {
      for (int h = 0; h < layer[u].group_size(); ++h) {
        const Eigen::VectorXd of_head = delta(layer[u], references[u].heads[h], outcomes[u], step);
        projected += layer[u].output_projection[h].cast<double>().transpose() * of_head;
        for (const std::vector<Matrix>& sample : layer[u].output_score_grad) {
          const double product = sample[h].row(step).cast<double>().dot(of_head);
          sums.predicted_kl += product * product / 2 / kShape.gradient_samples;
        }
      }
    }
    sums.projected_error += projected.squaredNorm();
    sums.residual += layer.front().residual_square[step];
  }
  return {sums.projected_error / steps, sums.residual / steps, sums.predicted_kl / steps};
}

void check(const std::vector<Unit>& units, const std::vector<std::string>& specs,
           ReplayOptions options) {
  options.trajectories = true;
  options.selections = true;
  options.whole_layers = true;
  std::vector<Configuration> configurations;
  for (const std::string& spec : specs) configurations.push_back({Spec(spec), 9});
  const auto outcomes = replay_together(units, configurations, options, *make_cpu_backend());
  const std::size_t of_layer = 2;
  for (std::size_t c = 0; c < specs.size(); ++c) {
    for (std::size_t begin = 0; begin < units.size(); begin += of_layer) {
      CAPTURE(specs[c], begin);
      const auto own = std::span(outcomes[c]).subspan(begin, of_layer);
      const Expected expected =
          by_definition(std::span(units).subspan(begin, of_layer), own, options);
      REQUIRE(own.front().layer_error);
      const LayerError& found = *own.front().layer_error;
      CHECK(*found.projected_error == Approx(expected.projected_error).epsilon(1e-5));
      CHECK(*found.projected_error_relative ==
            Approx(expected.projected_error / expected.residual).epsilon(1e-5));
      CHECK(*found.predicted_kl == Approx(expected.predicted_kl).epsilon(1e-5));
      CHECK(own.back().layer_error->projected_error == found.projected_error);
    }
  }
}

TEST_CASE("errors of layers are those of their heads' outputs, projected and summed") {
  const std::vector<Unit> units = random_units(kShape, 5);
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  const int every = GENERATE(1, 4);
  check(units, {"window", "h2o", "fastgen", "tova:scope=layer", "spatten", "topk"},
        {.protocol = {.mode = mode, .error_stride = every}});
}

TEST_CASE("errors of layers at sampled steps are those of these steps") {
  const std::vector<Unit> units = random_units(kShape, 7);
  const Mode mode = GENERATE(Mode::stream, Mode::prefill);
  const int samples = GENERATE(1, 7, 50);
  check(units, {"window", "h2o", "tova:scope=layer", "spatten"},
        {.protocol = {.mode = mode, .reference = Reference::sample, .samples = samples}});
}

TEST_CASE("a layer without gradients or projections has no number for them") {
  UnitShape shape = kShape;
  shape.gradient_samples = 0;
  std::vector<Unit> units = random_units(shape, 6);
  const ReplayOptions options{.whole_layers = true};
  const auto errors_of = [&](const std::vector<Unit>& some) {
    return *replay_together(some, {{Spec("window"), 9}}, options, *make_cpu_backend())
                .front()
                .front()
                .layer_error;
  };
  CHECK(errors_of(units).projected_error);
  CHECK_FALSE(errors_of(units).predicted_kl);
  for (Unit& unit : units) unit.residual_square.clear();
  CHECK_FALSE(errors_of(units).projected_error_relative);
  for (Unit& unit : units) unit.output_projection.clear();
  CHECK_FALSE(errors_of(units).projected_error);
}

TEST_CASE("a cache that loses nothing has no error in any layer") {
  const std::vector<Unit> units = random_units(kShape, 7);
  const auto outcomes =
      replay_together(units, {{Spec("full"), 9}}, {.whole_layers = true}, *make_cpu_backend());
  CHECK(outcomes.front().front().layer_error->projected_error == 0);
  CHECK(outcomes.front().front().layer_error->predicted_kl == 0);
  CHECK(outcomes.front().front().result.output_error_sq == 0);
}

}  // namespace kvsim::layer_errors_test
