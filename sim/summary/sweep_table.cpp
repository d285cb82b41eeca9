#include "sim/summary/sweep_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <ostream>
#include <tuple>

#include "sim/base/printable.h"
#include "sim/results/table.h"
#include "sim/summary/best_policies.h"
#include "sim/summary/layer_values.h"
#include "sim/summary/open_loop.h"
#include "sim/summary/regret_columns.h"
#include "sim/summary/sampled_intervals.h"
#include "sim/summary/short_spec.h"

namespace kvsim {
namespace {

constexpr double kMostly = 0.5;  // of the evictions

/// The mean of a column; empty if one of the rows has no value.
class ColumnMean {
 public:
  void add(std::optional<double> value) {
    ++count_;
    applies_ = applies_ && value.has_value();
    sum_ += value.value_or(0);
  }

  std::optional<double> get() const {
    return applies_ ? std::optional(sum_ / count_) : std::nullopt;
  }

 private:
  double count_ = 0;
  double sum_ = 0;
  bool applies_ = true;
};

/// Means of the printed columns over units.
class Mean {
 public:
  void add(const Result& result) {
    tokens_.add(static_cast<double>(result.peak_tokens));
    bytes_.add(static_cast<double>(result.cache_bytes));
    recall_.add(result.attention_recall);
    accesses_ += result.token_accesses.value_or(0);
    misses_ += result.token_misses.value_or(0);
    error_.add(result.output_error_mean);
    error_p95_.add(result.output_error_p95);
    error_sq_.add(result.output_error_sq);
    predicted_kl_.add(result.predicted_kl);
    bound_.add(result.bound_mean);
    evictions_ += result.evictions;
    ties_ += result.ties.value_or(0);
  }

  /// Adds the proven bound of every policy's recall on the unit, if there is one.
  void add_bound(std::optional<double> recall_bound) { recall_bound_.add(recall_bound); }

  std::optional<double> recall() const { return recall_.get(); }
  std::optional<double> recall_bound() const { return recall_bound_.get(); }

  std::optional<double> squared_error() const { return error_sq_.get(); }
  /// Nats per token of one unit.
  std::optional<double> predicted_kl() const { return predicted_kl_.get(); }

  /// The share of all evictions that equal scores decided.
  double share_of_ties() const {
    return ties_ == 0 ? 0 : static_cast<double>(ties_) / static_cast<double>(evictions_);
  }

  static std::vector<std::string> columns() {
    return {"tokens", "bytes", "recall", "miss rate", "error", "error p95", "error sq", "bound"};
  }

  void append_to(std::vector<Value>& row) const {
    row.emplace_back(std::int64_t{std::llround(*tokens_.get())});
    row.emplace_back(std::int64_t{std::llround(*bytes_.get())});
    row.push_back(value_of(recall()));
    row.push_back(value_of(miss_rate()));
    for (const ColumnMean& mean : {error_, error_p95_, error_sq_, bound_})
      row.push_back(value_of(mean.get()));
  }

 private:
  /// Over all accesses.
  std::optional<double> miss_rate() const {
    if (!recall()) return std::nullopt;
    return accesses_ == 0 ? 0 : static_cast<double>(misses_) / static_cast<double>(accesses_);
  }

  ColumnMean tokens_;
  ColumnMean bytes_;
  ColumnMean recall_;
  std::int64_t accesses_ = 0;
  std::int64_t misses_ = 0;
  ColumnMean error_;
  ColumnMean error_p95_;
  ColumnMean error_sq_;
  ColumnMean predicted_kl_;
  ColumnMean bound_;
  ColumnMean recall_bound_;
  std::int64_t evictions_ = 0;
  std::int64_t ties_ = 0;
};

using RowKey =
    std::tuple<std::string, std::string, std::int64_t, std::int64_t, std::string, std::int64_t>;

RowKey key_of(const Result& row) {
  return {row.trace_id, row.sequence, row.layer, row.kv_head, row.policy, row.budget};
}

std::map<RowKey, Result> rows_of(const SweepPlan& plan, const ResultStore& store) {
  std::map<RowKey, Result> rows;
  for (const Trace& trace : plan.traces) {
    for (Result& row : store.results(trace.id(), plan.mode(), plan.request.seed)) {
      rows.emplace(key_of(row), std::move(row));
    }
  }
  return rows;
}

using Measurements = std::vector<Value>;

// The measured columns, without the way to the same caches.
void append_measurements(const Result& row, Measurements& measurements) {
  for (const Column& column : result_columns().subspan(kKeyColumns)) {
    const bool is_measured = column.type != ColumnSchema::Type::text && column.name != "ties";
    if (is_measured) measurements.push_back(column.get(row));
  }
}

/// The units of the plan in the order in which `compare` has them. So the bootstrap draws the same
/// units whatever the order of the traces.
Units ordered_units(const SweepPlan& plan) {
  Units units;
  for (const PlannedUnit& planned : plan.units) units.push_back(&planned);
  const auto key_of = [&](const PlannedUnit* planned) {
    const UnitName& name = planned->unit.name;
    return std::tuple(plan.traces[planned->trace].id(), name.sequence, name.layer, name.kv_head);
  };
  std::stable_sort(units.begin(), units.end(), [&](const PlannedUnit* a, const PlannedUnit* b) {
    return key_of(a) < key_of(b);
  });
  return units;
}

/// Of every unit, the index of its sequence.
std::vector<std::size_t> sequences_of(const SweepPlan& plan, const Units& units) {
  std::vector<std::pair<std::string, std::string>> sequences;
  for (const PlannedUnit* planned : units) {
    sequences.emplace_back(plan.traces[planned->trace].id(), planned->unit.name.sequence);
  }
  return number_sequences(sequences);
}

/// What the intervals of a table mean.
std::string about_intervals(const PairedBootstrap& bootstrap) {
  if (bootstrap.num_samples() == 1) return "No intervals: they need two units or more.\n";
  const std::string sampled =
      bootstrap.samples_sequences()
          ? fmt::format("{} sequences", bootstrap.num_samples())
          : fmt::format("{} units, as there are fewer than {} sequences", bootstrap.num_samples(),
                        PairedBootstrap::kFewestSamples);
  return fmt::format(
      "95% intervals: paired bootstrap over {}; each for itself, not corrected for the number of "
      "policies.\n",
      sampled);
}

/// The rows of a sweep at one budget as requested, from which its lines and notes follow.
struct AtBudget {
  std::vector<Mean> means;  // per policy
  UnitValues recalls;
  UnitValues squared_errors;
  std::vector<std::vector<std::string>> groups;  // of policies that did the same in every unit
};

AtBudget rows_at(const SweepPlan& plan, const Units& units, std::size_t amount,
                 const std::map<RowKey, Result>& rows, const ResultStore& store) {
  AtBudget found;
  std::map<Measurements, std::size_t> groups;
  for (std::size_t i = 0; i < plan.request.policies.size(); ++i) {
    const Spec& policy = plan.request.policies[i];
    Mean& mean = found.means.emplace_back();
    Measurements measurements;
    std::vector<double> recalls;
    std::vector<double> squared_errors;
    for (const PlannedUnit* planned : units) {
      const UnitName& name = planned->unit.name;
      const int budget = SweepPlan::budget_of(*planned, amount, i);
      const Result& row = rows.at({plan.traces[planned->trace].id(), name.sequence, name.layer,
                                   name.kv_head, policy.text(), budget});
      mean.add(row);
      mean.add_bound(policy.is_oracle() ? store.recall_bound(row) : std::nullopt);
      append_measurements(row, measurements);
      recalls.push_back(row.attention_recall.value_or(0));
      squared_errors.push_back(row.output_error_sq.value_or(0));
    }
    if (mean.recall()) found.recalls.emplace(policy.text(), std::move(recalls));
    if (mean.squared_error()) {
      found.squared_errors.emplace(policy.text(), std::move(squared_errors));
    }
    const auto group = groups.emplace(std::move(measurements), found.groups.size());
    if (group.second) found.groups.emplace_back();
    found.groups[group.first->second].push_back(name_in_tables(policy));
  }
  return found;
}

/// A line for each group of two policies or more.
std::string about_same(const std::string& budget,
                       const std::vector<std::vector<std::string>>& groups) {
  std::string lines;
  for (const std::vector<std::string>& group : groups) {
    if (group.size() < 2) continue;
    lines += fmt::format("at {} the same in every unit: {} and {}\n", budget,
                         fmt::join(group.begin(), group.end() - 1, ", "), group.back());
  }
  return lines;
}

}  // namespace

void write_units(std::ostream& out, const std::vector<Result>& results) {
  Table table{{"sequence", "layer", "KV head"}, {}};
  for (const std::string& name : Mean::columns()) table.columns.push_back(name);
  Mean all;
  for (const Result& result : results) {
    Mean one;
    one.add(result);
    all.add(result);
    one.append_to(table.rows.emplace_back(std::vector<Value>{
        result.sequence, fmt::format("{}", result.layer), fmt::format("{}", result.kv_head)}));
  }
  all.append_to(table.rows.emplace_back(std::vector<Value>{"all, mean", "", ""}));
  const Result& first = results.front();
  const std::string label = first.label ? *first.label + " = " : "";
  out << fmt::format("{}{} at budget {} of {}, {} mode, seed {}\n\n", label,
                     printable(first.policy), first.budget_request, printable(first.trace),
                     first.mode, first.seed);
  write_aligned(out, table);
}

void write_sweep_table(std::ostream& out, const SweepPlan& plan, const ResultStore& store) {
  const std::map<RowKey, Result> rows = rows_of(plan, store);
  const Units units = ordered_units(plan);
  const PairedBootstrap bootstrap(sequences_of(plan, units));
  const std::vector<Spec>& policies = plan.request.policies;
  const RegretColumns regret(policies);
  const LayerValues layers(plan, units, store);
  Table table{{"budget", "policy"}, {}};
  for (const std::string& name : Mean::columns()) table.columns.push_back(name);
  for (const std::string& name : layers.columns()) table.columns.push_back(name);
  for (const std::string& name : regret.columns()) table.columns.push_back(name);
  std::string notes;
  std::string best;
  for (std::size_t at = 0; at < plan.request.budgets.size(); ++at) {
    const Amount& amount = plan.request.budgets[at];
    const AtBudget found = rows_at(plan, units, at, rows, store);
    if (plan.request.protocol.measures()) notes += about_same(amount.written(), found.groups);
    for (std::size_t i = 0; i < policies.size(); ++i) {
      const std::string policy = policies[i].text();
      const Mean& mean = found.means[i];
      const auto bound = mean.recall_bound();
      if (bound && !policies[i].bounds_recall()) {  // which retains as much as it bounds
        // Between evictions others may keep more tokens, or evict below the budget.
        // Of sizes, those that store their tokens in fewer bytes keep more of them.
        const char* bounded = plan.request.protocol.evicts_every_step()
                                  ? "no policy"
                                  : "no policy that evicts down to exactly its budget";
        notes +=
            fmt::format("at {} {}{} retains more than {:.4f}; {} retains {:.4f}\n",
                        amount.written(), bounded, amount.is_bytes() ? " with as many tokens" : "",
                        *bound, name_in_tables(policies[i]), *mean.recall());
      }
      if (mean.share_of_ties() > kMostly) {
        notes +=
            fmt::format("at {} equal scores decide {:.0f}% of the evictions of {}\n",
                        amount.written(), 100 * mean.share_of_ties(), name_in_tables(policies[i]));
      }
      std::vector<Value>& row = table.rows.emplace_back(
          std::vector<Value>{amount.written(), name_in_tables(policies[i])});
      mean.append_to(row);
      layers.append_to(row, i, at, mean.predicted_kl());
      regret.append_to(row, policy, found.recalls, bootstrap);
    }
    if (const UnitValues projected = layers.projected_errors(at); !projected.empty()) {
      best += best_policies(amount.written(), policies, {"least projected error", true, projected},
                            layers.bootstrap());
    } else {
      best += best_policies(amount.written(), policies,
                            {"least squared error", true, found.squared_errors}, bootstrap);
    }
  }
  out << fmt::format(
      "{} units, {} mode, seed {}: means over units, miss rate over all their accesses{}{}\n\n",
      plan.units.size(), plan.mode(), plan.request.seed, layers.note(), regret.note());
  write_aligned(out, table);
  write_sweep_intervals(out, plan, store);
  if (!best.empty() || regret.has_any())
    notes += best + about_intervals(bootstrap) + layers.about_intervals();
  if (policies.size() > 1 && plan.request.protocol.measures()) notes += kOpenLoop;
  notes = legend(plan.request.policies) + notes;
  if (!notes.empty()) out << '\n' << notes;
}

}  // namespace kvsim
