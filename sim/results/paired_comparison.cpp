#include "sim/results/paired_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "sim/base/errors.h"
#include "sim/base/nearest.h"
#include "sim/protocol/protocol.h"
#include "sim/results/layer_error_table.h"

namespace kvsim {
namespace {

constexpr const char* kProjectedError = "projected_error";

using UnitKey = std::tuple<std::string, std::string, std::int64_t, std::int64_t>;

UnitKey unit_of(const MeasuredRow& row) {
  return {row.trace_id, row.sequence, row.layer, row.kv_head};
}

/// A budget as requested, equal for equal amounts: "0.2" for 20% and 0.20.
std::string request_of(const MeasuredRow& row) {
  return Amount::parse(row.budget_request, "budget_request").text();
}

/// A share is of the text in stream mode, of the prompt in prefill mode. Rows do not have the
/// length of the prompt, nor, where a sample of steps was measured, that of the text: their request
/// decides.
bool has_length(const MeasuredRow& row) {
  const Protocol protocol = Protocol::of_name(row.mode);
  return protocol.mode == Mode::stream && protocol.reference != Reference::sample;
}

bool is_at(const MeasuredRow& row, const Amount& budget) {
  if (!budget.is_share()) return row.budget == budget.of(0);
  if (request_of(row) == budget.text()) return true;
  return has_length(row) && row.budget == budget.of(static_cast<int>(row.steps));
}

struct Pair {
  const MeasuredRow* first;
  const MeasuredRow* second;

  bool is_at(const Amount& budget) const {
    return kvsim::is_at(*first, budget) || kvsim::is_at(*second, budget);
  }
};

struct Pairs {
  std::map<std::string, std::vector<Pair>> of_mode;
  std::vector<const MeasuredRow*> only_first;
  std::vector<const MeasuredRow*> only_second;
};

Pairs pairs_of(const std::vector<MeasuredRow>& first, const std::vector<MeasuredRow>& second) {
  using Key = std::tuple<std::string, UnitKey, std::int64_t, std::int64_t>;
  const auto key_of = [](const MeasuredRow& row) {
    return Key{row.mode_of_pair(), unit_of(row), row.budget, row.seed};
  };
  std::map<Key, const MeasuredRow*> unpaired;
  for (const MeasuredRow& row : second) unpaired.emplace(key_of(row), &row);
  std::map<Key, Pair> paired;  // ordered: sums do not depend on the order of the rows
  Pairs pairs;
  for (const MeasuredRow& row : first) {
    const auto partner = unpaired.find(key_of(row));
    if (partner == unpaired.end()) {
      pairs.only_first.push_back(&row);
    } else {
      paired.emplace(partner->first, Pair{&row, partner->second});
      unpaired.erase(partner);
    }
  }
  for (const auto& [key, pair] : paired) pairs.of_mode[pair.first->mode].push_back(pair);
  for (const auto& [key, row] : unpaired) pairs.only_second.push_back(row);
  return pairs;
}

void add_request(const MeasuredRow& row, std::vector<std::string>& requests) {
  if (std::find(requests.begin(), requests.end(), row.budget_request) == requests.end()) {
    requests.push_back(row.budget_request);
  }
}

Unpaired summary_of(const std::vector<const MeasuredRow*>& rows,
                    const std::optional<Amount>& budget) {
  Unpaired summary;
  for (const MeasuredRow* row : rows) {
    if (budget && !is_at(*row, *budget)) continue;
    ++summary.rows;
    add_request(*row, summary.budgets);
  }
  return summary;
}

/// The units whose rows do not have the length of which a share is, and of which no pair is at it.
RequestedOtherwise requested_otherwise(const Pairs& pairs, const Amount& budget) {
  using UnitInMode = std::pair<std::string, UnitKey>;
  std::set<UnitInMode> there;
  for (const auto& [mode, of_mode] : pairs.of_mode) {
    for (const Pair& pair : of_mode) {
      if (pair.is_at(budget)) there.emplace(mode, unit_of(*pair.first));
    }
  }
  RequestedOtherwise otherwise;
  std::set<UnitInMode> units;
  for (const auto& [mode, of_mode] : pairs.of_mode) {
    for (const Pair& pair : of_mode) {
      const UnitInMode unit{mode, unit_of(*pair.first)};
      if (has_length(*pair.first) || there.contains(unit)) continue;
      units.insert(unit);
      add_request(*pair.first, otherwise.budgets);
    }
  }
  otherwise.units = static_cast<std::int64_t>(units.size());
  return otherwise;
}

/// The budgets by which the rows of the pairs were asked for.
std::vector<Amount> budgets_of(const std::vector<Pair>& pairs) {
  std::map<std::string, Amount> budgets;
  for (const Pair& pair : pairs) {
    for (const MeasuredRow* row : {pair.first, pair.second}) {
      budgets.emplace(request_of(*row), Amount::parse(row->budget_request, "budget_request"));
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

Difference difference_of(const std::vector<Pair>& pairs, const Metric& metric,
                         const Amount& budget) {
  std::map<UnitKey, std::vector<double>> of_seeds;
  std::set<std::int64_t> tokens;
  for (const Pair& pair : pairs) {
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
  difference.budget = tokens.size() == 1 ? Value(*tokens.begin()) : Value(budget.written());
  difference.mode = pairs.front().first->mode;
  difference.estimate = bootstrap.mean(of_units);
  difference.samples = bootstrap.num_samples();
  difference.of_sequences = bootstrap.samples_sequences();
  return difference;
}

double mean_budget(const std::vector<Pair>& pairs) {
  double sum = 0;
  for (const Pair& pair : pairs) sum += static_cast<double>(pair.first->budget);
  return sum / static_cast<double>(pairs.size());
}

/// The differences at the budgets, without those of the same pairs as another.
void append_differences(std::vector<Difference>& differences, const std::vector<Pair>& pairs,
                        const std::vector<Amount>& budgets, const Metric& metric) {
  struct Group {
    std::vector<Pair> pairs;
    Amount budget;
  };
  std::vector<Group> groups;
  std::set<std::vector<const MeasuredRow*>> seen;
  for (const Amount& budget : budgets) {
    Group group{{}, budget};
    std::vector<const MeasuredRow*> rows;
    for (const Pair& pair : pairs) {
      if (!pair.is_at(budget)) continue;
      group.pairs.push_back(pair);
      rows.push_back(pair.first);
    }
    if (!rows.empty() && seen.insert(rows).second) groups.push_back(std::move(group));
  }
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return mean_budget(a.pairs) < mean_budget(b.pairs);
  });
  for (const Group& group : groups) {
    differences.push_back(difference_of(group.pairs, metric, group.budget));
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
  const Pairs pairs = pairs_of(first, second);
  PairedComparison comparison;
  for (const auto& [mode, of_mode] : pairs.of_mode) {
    append_differences(comparison.differences, of_mode,
                       budget ? std::vector{*budget} : budgets_of(of_mode), metric);
  }
  if (comparison.differences.empty()) {
    throw UsageError(fmt::format(
        "{}no unit has rows of both policies at the same budget, mode and seed: {} has rows of {}; "
        "{} has rows of {}{}",
        budget ? fmt::format("--budget {}: ", budget->written()) : "", first.front().policy,
        where_there_are(first), second.front().policy, where_there_are(second),
        budget && budget->is_share() ? "; name the budget as these rows do, or in tokens" : ""));
  }
  comparison.only_first = summary_of(pairs.only_first, budget);
  comparison.only_second = summary_of(pairs.only_second, budget);
  if (budget && budget->is_share()) comparison.otherwise = requested_otherwise(pairs, *budget);
  return comparison;
}

}  // namespace kvsim
