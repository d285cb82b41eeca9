#include "sim/cli/comparison.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <tuple>

#include "sim/cli/ladder.h"
#include "sim/core/table.h"

namespace kvsim::cli {
namespace {

/// Sums over units, and their means.
class Mean {
 public:
  void add(const Result& result) {
    ++count_;
    tokens_ += static_cast<double>(result.peak_tokens);
    bytes_ += static_cast<double>(result.cache_bytes);
    recall_ += result.attention_recall;
    accesses_ += result.token_accesses;
    misses_ += result.token_misses;
    error_ += result.output_error_mean;
    error_p95_ += result.output_error_p95;
    has_bound_ = has_bound_ && result.bound_mean.has_value();
    bound_ += result.bound_mean.value_or(0);
  }

  /// A proven bound of every policy's recall on the row's unit, if there is one.
  void add_bound(std::optional<double> recall_bound) {
    has_recall_bound_ = has_recall_bound_ && recall_bound.has_value();
    recall_bound_ += recall_bound.value_or(0);
  }

  double recall() const { return recall_ / count_; }
  std::optional<double> recall_bound() const {
    return has_recall_bound_ ? std::optional(recall_bound_ / count_) : std::nullopt;
  }

  static std::vector<std::string> columns() {
    return {"tokens", "bytes", "recall", "miss rate", "error", "error p95", "bound"};
  }

  void append_to(std::vector<Value>& row) const {
    const double miss_rate = accesses_ == 0 ? 0 : static_cast<double>(misses_) / accesses_;
    row.emplace_back(std::int64_t{std::llround(tokens_ / count_)});
    row.emplace_back(std::int64_t{std::llround(bytes_ / count_)});
    row.emplace_back(recall_ / count_);
    row.emplace_back(miss_rate);
    row.emplace_back(error_ / count_);
    row.emplace_back(error_p95_ / count_);
    if (has_bound_) {
      row.emplace_back(bound_ / count_);
    } else {
      row.emplace_back(std::monostate());
    }
  }

 private:
  double count_ = 0;
  double tokens_ = 0;
  double bytes_ = 0;
  double recall_ = 0;
  std::int64_t accesses_ = 0;
  std::int64_t misses_ = 0;
  double error_ = 0;
  double error_p95_ = 0;
  double bound_ = 0;
  bool has_bound_ = true;
  double recall_bound_ = 0;
  bool has_recall_bound_ = true;
};

using RowKey =
    std::tuple<std::string, std::string, std::int64_t, std::int64_t, std::string, std::int64_t>;

RowKey key_of(const Result& row) {
  return {row.trace_id, row.sequence, row.layer, row.kv_head, row.policy, row.budget};
}

std::map<RowKey, Result> rows_of(const SweepPlan& plan, const ResultStore& store) {
  std::map<RowKey, Result> rows;
  for (const Trace& trace : plan.traces) {
    const std::string mode = mode_name(plan.request.mode);
    for (Result& row : store.results(trace.id(), mode, plan.request.seed)) {
      rows.emplace(key_of(row), std::move(row));
    }
  }
  return rows;
}

using Measurements = std::vector<Value>;

// What a replay of the unit measured, as opposed to what was asked for.
void append_measurements(const Result& row, Measurements& measurements) {
  static const std::set<std::string> kRequest = {"policy", "budget_request", "device",
                                                 "kvsim_version"};
  for (const Column& column : result_columns()) {
    if (!kRequest.contains(column.name)) measurements.push_back(column.get(row));
  }
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
  out << fmt::format("{} at budget {} of {}, {} mode, seed {}\n\n", first.policy,
                     first.budget_request, first.trace, first.mode, first.seed);
  write_aligned(out, table);
}

void write_comparison(std::ostream& out, const SweepPlan& plan, const ResultStore& store) {
  const std::map<RowKey, Result> rows = rows_of(plan, store);
  const auto mean_of = [&](const Spec& policy, const Amount& amount, Measurements& measurements) {
    Mean mean;
    for (const PlannedUnit& planned : plan.units) {
      const UnitName& name = planned.unit.name;
      const int budget = amount.of(budget_base(planned.unit, plan.request.mode));
      const Result& row = rows.at({plan.traces[planned.trace].id(), name.sequence, name.layer,
                                   name.kv_head, policy.text(), budget});
      mean.add(row);
      mean.add_bound(policy.is_oracle() ? store.recall_bound(row) : std::nullopt);
      append_measurements(row, measurements);
    }
    return mean;
  };
  const Ladder ladder(plan.request.policies);
  Table table{{"budget", "policy"}, {}};
  for (const std::string& name : Mean::columns()) table.columns.push_back(name);
  for (const std::string& name : ladder.columns()) table.columns.push_back(name);
  std::string notes;
  for (const Amount& amount : plan.request.budgets) {
    std::map<Measurements, std::string> seen;
    std::map<std::string, double> recall;
    std::vector<std::pair<std::string, Mean>> means;
    for (const Spec& policy : plan.request.policies) {
      Measurements measurements;
      means.emplace_back(policy.text(), mean_of(policy, amount, measurements));
      recall[policy.text()] = means.back().second.recall();
      const auto [first, is_new] = seen.emplace(std::move(measurements), policy.text());
      if (!is_new) {
        notes += fmt::format("at {} the same in every unit: {} and {}\n", amount.written(),
                             first->second, policy.text());
      }
    }
    for (const auto& [policy, mean] : means) {
      if (const auto bound = mean.recall_bound()) {
        notes += fmt::format("at {} no policy retains more than {:.4f}; {} retains {:.4f}\n",
                             amount.written(), *bound, policy, mean.recall());
      }
      std::vector<Value>& row =
          table.rows.emplace_back(std::vector<Value>{amount.written(), policy});
      mean.append_to(row);
      ladder.append_to(row, policy, recall);
    }
  }
  out << fmt::format(
      "{} units, {} mode, seed {}: means over units, miss rate over all their accesses{}\n\n",
      plan.units.size(), mode_name(plan.request.mode), plan.request.seed, ladder.note());
  write_aligned(out, table);
  if (!notes.empty()) out << '\n' << notes;
}

}  // namespace kvsim::cli
