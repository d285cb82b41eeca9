#include "sim/summary/sampled_intervals.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <optional>
#include <ostream>
#include <tuple>

#include "sim/results/table.h"
#include "sim/summary/short_spec.h"

namespace kvsim {
namespace {

struct ShownMetric {
  const char* column;
  const char* name;  ///< as in the table of the means
};

// Without the miss rate, whose mean in the tables is over accesses and not over units.
constexpr std::array<ShownMetric, 3> kShown = {{{"attention_recall", "recall"},
                                                {"output_error_mean", "error"},
                                                {"output_error_sq", "error sq"}}};

/// The shown intervals of one unit under one policy at one budget.
using UnitIntervals = std::map<std::string, std::optional<Interval>>;

/// The means of the ends over units; of several units, as if they all erred together, which is no
/// narrower than the interval of the mean.
class MeanIntervals {
 public:
  void add(const UnitIntervals& unit) {
    ++count_;
    for (std::size_t i = 0; i < kShown.size(); ++i) {
      const auto found = unit.find(kShown[i].column);
      const bool applies = found != unit.end() && found->second;
      applies_[i] = applies_[i] && applies;
      if (!applies) continue;
      low_[i] += found->second->low;
      high_[i] += found->second->high;
    }
  }

  static void append_names(std::vector<std::string>& columns) {
    for (const ShownMetric& metric : kShown) {
      columns.push_back(fmt::format("{} from", metric.name));
      columns.emplace_back("to");
    }
  }

  void append_to(std::vector<Value>& row) const {
    for (std::size_t i = 0; i < kShown.size(); ++i) {
      row.push_back(value_of(applies_[i] ? std::optional(low_[i] / count_) : std::nullopt));
      row.push_back(value_of(applies_[i] ? std::optional(high_[i] / count_) : std::nullopt));
    }
  }

 private:
  double count_ = 0;
  std::array<bool, kShown.size()> applies_ = {true, true, true};
  std::array<double, kShown.size()> low_ = {};
  std::array<double, kShown.size()> high_ = {};
};

std::string about_sample(int steps) {
  return fmt::format(
      "95% intervals from the {} sampled step{} of each unit: percentile bootstrap "
      "over steps, {} draws; of several units the means of the ends",
      steps, steps == 1 ? "" : "s", PairedBootstrap::kDraws);
}

}  // namespace

void write_unit_intervals(std::ostream& out, const std::vector<SampledIntervalRow>& rows) {
  if (rows.empty()) return;
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, UnitIntervals> units;
  for (const SampledIntervalRow& row : rows) {
    units[{row.row.sequence, row.row.layer, row.row.kv_head}][row.sampled.metric] =
        row.sampled.interval;
  }
  Table table{{"sequence", "layer", "KV head"}, {}};
  MeanIntervals::append_names(table.columns);
  MeanIntervals all;
  for (const auto& [key, unit] : units) {
    const auto& [sequence, layer, kv_head] = key;
    MeanIntervals one;
    one.add(unit);
    all.add(unit);
    one.append_to(table.rows.emplace_back(
        std::vector<Value>{sequence, fmt::format("{}", layer), fmt::format("{}", kv_head)}));
  }
  all.append_to(table.rows.emplace_back(std::vector<Value>{"all, mean", "", ""}));
  out << fmt::format("\n{}\n\n", about_sample(static_cast<int>(rows.front().row.steps)));
  write_aligned(out, table);
}

void write_sweep_intervals(std::ostream& out, const SweepPlan& plan, const ResultStore& store) {
  if (plan.request.protocol.reference != Reference::sample) return;
  using Key =
      std::tuple<std::string, std::string, std::int64_t, std::int64_t, std::string, std::int64_t>;
  std::map<Key, UnitIntervals> units;
  for (const Trace& trace : plan.traces) {
    for (const SampledIntervalRow& read :
         store.sampled_intervals(trace.id(), plan.mode(), plan.request.seed)) {
      const Result& row = read.row;
      units[{row.trace_id, row.sequence, row.layer, row.kv_head, row.policy, row.budget}]
           [read.sampled.metric] = read.sampled.interval;
    }
  }
  Table table{{"budget", "policy"}, {}};
  MeanIntervals::append_names(table.columns);
  const std::vector<Spec>& policies = plan.request.policies;
  for (std::size_t at = 0; at < plan.request.budgets.size(); ++at) {
    for (std::size_t i = 0; i < policies.size(); ++i) {
      MeanIntervals mean;
      for (const PlannedUnit& planned : plan.units) {
        const UnitName& name = planned.unit.name;
        const int budget = SweepPlan::budget_of(planned, at, i);
        mean.add(units[{plan.traces[planned.trace].id(), name.sequence, name.layer, name.kv_head,
                        policies[i].text(), budget}]);
      }
      mean.append_to(table.rows.emplace_back(
          std::vector<Value>{plan.request.budgets[at].written(), name_in_tables(policies[i])}));
    }
  }
  out << fmt::format("\n{}\n\n", about_sample(plan.request.protocol.samples));
  write_aligned(out, table);
}

}  // namespace kvsim
