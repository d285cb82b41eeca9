#include "sim/results/paired_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "sim/base/errors.h"
#include "sim/base/nearest.h"
#include "sim/results/layer_error_table.h"
#include "sim/results/row_pairs.h"

namespace kvsim {
namespace {

constexpr const char* kProjectedError = "projected_error";

void add_request(const MeasuredRow& row, std::vector<std::string>& requests) {
  if (std::find(requests.begin(), requests.end(), row.budget_request) == requests.end()) {
    requests.push_back(row.budget_request);
  }
}

/// Of the rows that are in no difference.
Unpaired summary_of(const std::vector<MeasuredRow>& rows,
                    const std::set<const MeasuredRow*>& compared,
                    const std::optional<Amount>& budget) {
  Unpaired summary;
  for (const MeasuredRow& row : rows) {
    if (compared.contains(&row) || (budget && !is_at(row, *budget))) continue;
    ++summary.rows;
    add_request(row, summary.budgets);
  }
  return summary;
}

/// The units whose rows do not have the length of which a share is, and of which no pair is at it.
RequestedOtherwise requested_otherwise(const RowPairs& pairs, const Amount& budget) {
  using UnitInMode = std::pair<std::string, UnitKey>;
  std::set<UnitInMode> there;
  for (const auto& [mode, of_mode] : pairs.of_tokens) {
    for (const RowPair& pair : of_mode) {
      if (pair.is_at(budget)) there.emplace(mode, unit_of(*pair.first));
    }
  }
  RequestedOtherwise otherwise;
  std::set<UnitInMode> units;
  for (const auto& [mode, of_mode] : pairs.of_tokens) {
    for (const RowPair& pair : of_mode) {
      const UnitInMode unit{mode, unit_of(*pair.first)};
      if (has_length(*pair.first) || there.contains(unit)) continue;
      units.insert(unit);
      add_request(*pair.first, otherwise.budgets);
    }
  }
  otherwise.units = static_cast<std::int64_t>(units.size());
  return otherwise;
}

/// The budgets by which the rows of the pairs of a mode were asked for.
std::vector<Amount> budgets_of(const RowPairs& pairs, const std::string& mode) {
  std::map<std::string, Amount> budgets;
  for (const PairsOfModes* kind : {&pairs.of_tokens, &pairs.of_sizes}) {
    const auto of_mode = kind->find(mode);
    if (of_mode == kind->end()) continue;
    for (const RowPair& pair : of_mode->second) {
      for (const MeasuredRow* row : {pair.first, pair.second}) {
        const Amount budget = request_of(*row);
        budgets.emplace(budget.text(), budget);
      }
    }
  }
  std::vector<Amount> list;
  for (const auto& [text, budget] : budgets) list.push_back(budget);
  return list;
}

double number_of(const MeasuredRow& row, const Metric& metric) {
  if (row.value) return *row.value;
  throw UsageError(fmt::format(
      "{} is NULL for {} at budget {} in mode {}: it does not apply there; compare another metric, "
      "or with --mode and --budget rows that have it",
      metric.declared.name, row.policy, row.budget_request, row.mode));
}

std::optional<double> number_in(const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return std::nullopt;
}

MeasuredRow measured_row(const Result& row, std::optional<double> value) {
  return {row.trace_id, row.sequence, row.layer,          row.kv_head, row.policy, row.budget,
          row.mode,     row.seed,     row.budget_request, row.steps,   value};
}

/// Makes the mean over the units of each sequence their sum.
void scale_by_units(std::vector<double>& of_units, const std::vector<std::size_t>& sequences) {
  std::vector<double> counts;
  for (const std::size_t sequence : sequences) {
    counts.resize(std::max(counts.size(), sequence + 1));
    ++counts[sequence];
  }
  for (std::size_t i = 0; i < of_units.size(); ++i) of_units[i] *= counts[sequences[i]];
}

Difference difference_of(const std::vector<RowPair>& pairs, const Metric& metric,
                         const Amount& budget) {
  std::map<UnitKey, std::vector<double>> of_seeds;
  std::set<std::int64_t> tokens;
  for (const RowPair& pair : pairs) {
    of_seeds[unit_of(*pair.first)].push_back(number_of(*pair.first, metric) -
                                             number_of(*pair.second, metric));
    tokens.insert(pair.first->budget);
  }
  std::vector<double> of_units;
  std::vector<std::pair<std::string, std::string>> sequences;
  for (const auto& [unit, values] : of_seeds) {
    double sum = 0;
    for (const double value : values) sum += value;
    of_units.push_back(sum / static_cast<double>(values.size()));
    const auto& [trace, sequence, layer, kv_head] = unit;
    sequences.emplace_back(trace, sequence);
  }
  const std::vector<std::size_t> numbers = number_sequences(sequences);
  if (metric.declared.is_summed) scale_by_units(of_units, numbers);
  const PairedBootstrap bootstrap(numbers);
  Difference difference;
  const bool is_of_tokens = tokens.size() == 1 && !budget.is_bytes();
  difference.budget = is_of_tokens ? Value(*tokens.begin()) : Value(budget.written());
  difference.mode = pairs.front().first->mode;
  difference.estimate = bootstrap.mean(of_units);
  difference.samples = bootstrap.num_samples();
  difference.of_sequences = bootstrap.samples_sequences();
  return difference;
}

double mean_budget(const std::vector<RowPair>& pairs) {
  double sum = 0;
  for (const RowPair& pair : pairs) sum += static_cast<double>(pair.first->budget);
  return sum / static_cast<double>(pairs.size());
}

/// The differences of a mode at the budgets, without those of the same pairs as another. Notes
/// which rows are compared.
void append_differences(std::vector<Difference>& differences, const RowPairs& pairs,
                        const std::string& mode, const std::vector<Amount>& budgets,
                        const Metric& metric, std::set<const MeasuredRow*>& compared) {
  struct Group {
    std::vector<RowPair> pairs;
    Amount budget;
  };
  std::vector<Group> groups;
  std::set<std::vector<RowPair>> seen;
  for (const Amount& budget : budgets) {
    Group group{{}, budget};
    const PairsOfModes& of_modes = pairs.for_budget(budget);
    const auto of_mode = of_modes.find(mode);
    if (of_mode == of_modes.end()) continue;
    for (const RowPair& pair : of_mode->second) {
      if (pair.is_at(budget)) group.pairs.push_back(pair);
    }
    if (!group.pairs.empty() && seen.insert(group.pairs).second) groups.push_back(std::move(group));
  }
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return mean_budget(a.pairs) < mean_budget(b.pairs);
  });
  for (const Group& group : groups) {
    differences.push_back(difference_of(group.pairs, metric, group.budget));
    for (const RowPair& pair : group.pairs) compared.insert({pair.first, pair.second});
  }
}

std::string where_there_are(const std::vector<MeasuredRow>& rows) {
  std::set<std::pair<std::string, std::string>> places;
  for (const MeasuredRow& row : rows) places.emplace(row.mode, row.budget_request);
  std::vector<std::string> texts;
  for (const auto& [mode, budget] : places) texts.push_back(fmt::format("{} {}", mode, budget));
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

Metric metric_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Column& column : result_columns().subspan(kKeyColumns)) {
    if (column.type == ColumnSchema::Type::text) continue;
    if (column.name == name) return {column.schema(), &column};
    names.push_back(column.name);
  }
  for (const ColumnSchema& column : layer_error_schema().columns) {
    if (column.name != kProjectedError) continue;
    if (column.name == name) return {column};
    names.push_back(column.name);
  }
  std::vector<std::string> near;
  for (const std::string& other : names) {
    if (other.find(name) != std::string::npos) near.push_back(other);
  }
  throw UsageError(
      fmt::format("--metric: expected a number of the tables replay and layer_error ({}), found "
                  "'{}'; did you mean '{}'?",
                  fmt::join(names, ", "), name, nearest(name, near.empty() ? names : near)));
}

std::vector<MeasuredRow> measured(const std::vector<Result>& rows, const Metric& metric) {
  std::vector<MeasuredRow> found;
  for (const Result& row : rows) {
    found.push_back(measured_row(row, number_in(metric.column->get(row))));
  }
  return found;
}

std::vector<MeasuredRow> measured(const std::vector<LayerErrorRow>& rows) {
  std::vector<MeasuredRow> found;
  for (const LayerErrorRow& row : rows) {
    found.push_back(measured_row(row.row, row.error.projected_error));
    found.back().kv_head = 0;
  }
  return found;
}

PairedComparison compare_rows(const std::vector<MeasuredRow>& first,
                              const std::vector<MeasuredRow>& second, const Metric& metric,
                              const std::optional<Amount>& budget) {
  const RowPairs pairs = pairs_of(first, second);
  PairedComparison comparison;
  std::set<const MeasuredRow*> compared;
  std::set<std::string> modes;
  for (const PairsOfModes* kind : {&pairs.of_tokens, &pairs.of_sizes}) {
    for (const auto& [mode, of_mode] : *kind) modes.insert(mode);
  }
  for (const std::string& mode : modes) {
    append_differences(comparison.differences, pairs, mode,
                       budget ? std::vector{*budget} : budgets_of(pairs, mode), metric, compared);
  }
  if (comparison.differences.empty()) {
    throw UsageError(fmt::format(
        "{}no unit has rows of both policies at the same budget, mode and seed: {} has rows of {}; "
        "{} has rows of {}{}",
        budget ? fmt::format("--budget {}: ", budget->written()) : "", first.front().policy,
        where_there_are(first), second.front().policy, where_there_are(second),
        budget && budget->is_share()   ? "; name the budget as these rows do, or in tokens"
        : budget && budget->is_bytes() ? "; name the budget as the rows of both do"
                                       : ""));
  }
  comparison.only_first = summary_of(first, compared, budget);
  comparison.only_second = summary_of(second, compared, budget);
  if (budget && budget->is_share()) comparison.otherwise = requested_otherwise(pairs, *budget);
  return comparison;
}

}  // namespace kvsim
