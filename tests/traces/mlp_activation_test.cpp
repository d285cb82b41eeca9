#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "tests/support/nightly.h"
#include "tests/support/temporary_folder.h"
#include "tests/traces/full_trace.h"
#include "traces/synth/synth.h"

namespace kvsim::traces_test::mlp_activation_test {

/// All rows that are shown, one below the other.
Matrix activation_of(const Trace& trace, const std::string& sequence, int layer) {
  std::vector<Matrix> parts;
  Eigen::Index num_rows = 0;
  trace.read_rows(Dataset::mlp_activation, sequence, layer, [&](const Matrix& rows) {
    parts.push_back(rows);
    num_rows += rows.rows();
  });
  Matrix all(num_rows, parts.front().cols());
  Eigen::Index first = 0;
  for (const Matrix& part : parts) {
    all.middleRows(first, part.rows()) = part;
    first += part.rows();
  }
  return all;
}

TEST_CASE("the activations of an MLP are read a part at a time and in order") {
  const TemporaryFolder folder;
  write_full_trace(folder / "t.h5");
  CHECK(activation_of(Trace(folder / "t.h5"), "a", 0) == numbered_activation());
  SynthOptions options;
  options.tokens = 200;
  options.layers = 1;
  options.mlp_width = 16384;
  const Trace trace = synthesize(options);
  std::vector<Eigen::Index> parts;
  trace.read_rows(Dataset::mlp_activation, "synthetic", 0,
                  [&](const Matrix& rows) { parts.push_back(rows.rows()); });
  CHECK(parts == std::vector<Eigen::Index>{64, 64, 64, 8});
}

TEST_CASE("a layer without the activations of its MLP says how to record them") {
  const TemporaryFolder folder;
  write_full_trace(folder / "t.h5");
  CHECK_THROWS_WITH(activation_of(Trace(folder / "t.h5"), "a", 1),
                    Catch::Contains("/sequences/a/layers/1/mlp_activation: expected") &&
                        Catch::EndsWith("record the trace with --also mlp_activation"));
}

TEST_CASE("planted neurons are active as often as their rank says") {
  SynthOptions options;
  options.tokens = test_support::sample_of(800, 2000);
  options.mlp_width = 8;
  const Trace trace = synthesize(options);
  const Matrix first = activation_of(trace, "synthetic", 0);
  std::vector<double> share;
  for (Eigen::Index neuron = 0; neuron < first.cols(); ++neuron) {
    share.push_back(static_cast<double>((first.col(neuron).array() > 0).count()) / options.tokens);
  }
  CHECK_FALSE(std::is_sorted(share.begin(), share.end(), std::greater<>()));
  std::sort(share.begin(), share.end(), std::greater<>());
  CHECK(share[0] == 1);
  for (std::size_t rank = 1; rank <= share.size(); ++rank) {
    CHECK(share[rank - 1] == Approx(1.0 / static_cast<double>(rank)).margin(0.05));
  }
  CHECK(activation_of(trace, "synthetic", 1) != first);
  CHECK(activation_of(synthesize(options), "synthetic", 0) == first);
}

}  // namespace kvsim::traces_test::mlp_activation_test
