#include "tests/analysis/analysed.h"

#include <fmt/format.h>

#include "analysis/analyse_unit.h"

namespace kvsim::analysis_test {
namespace {

Row row_of(const AnalysisInfo& info, const AnalysisRow& row) {
  if (row.values.size() != info.columns.size()) {
    throw std::logic_error(fmt::format("{}: {} values for {} columns", info.name, row.values.size(),
                                       info.columns.size()));
  }
  Row named{row.head, {}};
  for (std::size_t i = 0; i < row.values.size(); ++i) {
    named.values[info.columns[i].name] = row.values[i];
  }
  return named;
}

/// A layer on which every analysis finds something: neurons differ in how often they are active.
Matrix some_activation(int tokens) {
  constexpr int kNeurons = 40;
  Matrix activation(tokens, kNeurons);
  for (int token = 0; token < tokens; ++token) {
    for (int neuron = 0; neuron < kNeurons; ++neuron) {
      activation(token, neuron) = static_cast<float>(neuron - token * 7 % 50) / 10;
    }
  }
  return activation;
}

AnalysisOptions options_with(const Matrix& of_layer, Mode mode, std::int64_t seed) {
  AnalysisOptions options{.protocol = {.mode = mode}, .seed = seed};
  options.read_rows = [=](Dataset, const SeeRows& see) {
    const Eigen::Index half = of_layer.rows() / 2;
    see(of_layer.topRows(half));
    see(of_layer.bottomRows(of_layer.rows() - half));
  };
  return options;
}

std::vector<Row> rows_of(std::string_view spec, const Unit& unit,
                         const std::vector<PolicyRun>& runs, const AnalysisOptions& options) {
  const std::vector<AnalysisSpec> parsed = parse_analyses(spec);
  const auto found = analyse_unit(unit, parsed, runs, options, *make_cpu_backend());
  std::vector<Row> rows;
  for (const AnalysisRow& row : found.at(0)) rows.push_back(row_of(*parsed[0].info, row));
  return rows;
}

}  // namespace

const Value& Row::at(std::string_view column) const {
  const auto value = values.find(column);
  if (value == values.end()) throw std::logic_error(fmt::format("no column '{}'", column));
  return value->second;
}

std::vector<Row> analyse(std::string_view spec, const Unit& unit,
                         const std::vector<PolicyRun>& runs, Mode mode, std::int64_t seed) {
  AnalysisOptions options = options_with(some_activation(unit.num_tokens()), mode, seed);
  for (const PolicyRun& run : runs) options.layer_runs.push_back({&run});
  return rows_of(spec, unit, runs, options);
}

std::vector<Row> analyse(std::string_view spec, const Unit& unit, const Matrix& of_layer) {
  return rows_of(spec, unit, {}, options_with(of_layer, Mode::stream, 0));
}

PolicyRun run_of(std::string_view policy, int budget, const Unit& unit, Mode mode,
                 std::uint64_t seed) {
  const Configuration configuration{.policy = Spec(policy), .budget = budget};
  const ReplayOptions options{.protocol = {.mode = mode}, .seed = seed, .trajectories = true};
  std::vector<Outcome> outcomes = replay(unit, {configuration}, options, *make_cpu_backend());
  Outcome& outcome = outcomes.at(0);
  return {configuration.policy, budget, static_cast<int>(outcome.result.peak_tokens),
          std::move(outcome.trajectory), std::move(outcome.amounts)};
}

}  // namespace kvsim::analysis_test
