#include "tests/gpu/block_differences.h"

#include <algorithm>
#include <cmath>

#include "tests/support/compare.h"

namespace kvsim::gpu_test {
namespace {

using test_support::close;

// Two fp32 sums of head_dim <= 128 products in different orders, for logits of at most about 10,
// differ by some 1e-6. A weight takes that over as a relative error, and so do sums of weights.
constexpr double kLogitTolerance = 1e-5;
constexpr double kWeightTolerance = 2e-5;

// Weights that the two devices may place on different sides of the pivotal threshold.
constexpr double kTie = 1e-4;

template <class Mine, class Theirs>
bool matches(const Mine& mine, const Theirs& theirs, double relative, double absolute) {
  if (mine.rows() != theirs.rows() || mine.cols() != theirs.cols()) return false;
  for (int row = 0; row < mine.rows(); ++row) {
    for (int column = 0; column < mine.cols(); ++column) {
      if (!close(mine(row, column), theirs(row, column), relative, absolute)) return false;
    }
  }
  return true;
}

bool is_hidden(const Unit& unit, int step, int token) {
  return token > step || token < first_visible(unit, step);
}

bool hidden_weights_are_zero(const Unit& unit, int first_step, const Matrix& weight) {
  for (int row = 0; row < weight.rows(); ++row) {
    for (int token = 0; token < weight.cols(); ++token) {
      if (is_hidden(unit, first_step + row, token) && weight(row, token) != 0) return false;
    }
  }
  return true;
}

bool counts_match(int first_step, const HeadAttention& cuda, const HeadAttention& cpu) {
  if (cuda.num_pivotal.size() != cpu.num_pivotal.size()) return false;
  for (int row = 0; row < cpu.weight.rows(); ++row) {
    const auto ratio =
        cpu.weight.row(row).cast<double>().array() * (first_step + row + 1) / cpu.weight_sum[row];
    const auto ties = (((ratio - 1).abs() < kTie) && (ratio != 1)).count();
    if (std::abs(cuda.num_pivotal[row] - cpu.num_pivotal[row]) > ties) return false;
  }
  return true;
}

}  // namespace

std::string differences(const Unit& unit, const AttentionBlock& cuda, const AttentionBlock& cpu) {
  std::string names;
  const auto expect = [&](bool holds, const char* field) {
    if (!holds) names += std::string(field) + " ";
  };
  expect(cuda.first_step == cpu.first_step, "first_step");
  expect(cuda.num_steps == cpu.num_steps, "num_steps");
  expect(cuda.longest_value == cpu.longest_value, "longest_value");
  expect(cuda.heads.size() == cpu.heads.size(), "heads");
  for (std::size_t i = 0; i < std::min(cuda.heads.size(), cpu.heads.size()); ++i) {
    const HeadAttention& mine = cuda.heads[i];
    const HeadAttention& theirs = cpu.heads[i];
    expect(matches(mine.logit, theirs.logit, kLogitTolerance, kLogitTolerance), "logit");
    expect(matches(mine.weight, theirs.weight, kWeightTolerance, 1e-30), "weight");
    expect(hidden_weights_are_zero(unit, cpu.first_step, mine.weight), "hidden weight");
    const Eigen::Map<const Eigen::VectorXd> sum(mine.weight_sum.data(), mine.weight_sum.size());
    const Eigen::Map<const Eigen::VectorXd> cpu_sum(theirs.weight_sum.data(),
                                                    theirs.weight_sum.size());
    expect(matches(sum, cpu_sum, kWeightTolerance, 0), "weight_sum");
    const Eigen::Map<const Eigen::VectorXd> sink(mine.sink_weight.data(), mine.sink_weight.size());
    const Eigen::Map<const Eigen::VectorXd> cpu_sink(theirs.sink_weight.data(),
                                                     theirs.sink_weight.size());
    expect(matches(sink, cpu_sink, kWeightTolerance, 0), "sink_weight");
    // Absolute, against the longest value: a mean of values may cancel to nothing.
    expect(matches(mine.output, theirs.output, 0, kWeightTolerance * cpu.longest_value.back()),
           "output");
    expect(counts_match(cpu.first_step, mine, theirs), "num_pivotal");
  }
  return names;
}

}  // namespace kvsim::gpu_test
