#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <set>

#include "sim/base/errors.h"
#include "sim/base/nearest.h"
#include "sim/base/printable.h"
#include "sim/cli/options.h"
#include "sim/cli/print_csv.h"
#include "sim/cli/stored_policy.h"
#include "sim/results/paired_comparison.h"
#include "sim/results/store.h"
#include "sim/results/table.h"
#include "sim/summary/open_loop.h"
#include "sim/sweep/request/lists.h"

namespace kvsim::cli {
namespace {

po::options_description compare_options() {
  const auto word = [] { return po::value<std::string>(); };
  po::options_description options(
      "A and B are specs, aliases or labels. Prints A - B at every budget and mode that both "
      "have,\n"
      "with a 95% interval from the paired bootstrap over sequences; over units (heads) where "
      "there\n"
      "are fewer than five sequences, and then it speaks of these texts alone. Where it contains "
      "0,\n"
      "or where there are fewer than five samples, the data do not distinguish the two. With "
      "several\n"
      "B each is compared with A, in a leading column b.\n\n"
      "Options");
  options.add_options()(
      "metric", word()->default_value("attention_recall"),
      "a number of the table replay, as output_error_sq; predicted_kl is summed over units, "
      "projected_error of the table layer_error over layers. What each is good for: "
      "sim/results/comparisons.md; python -m kvsim.evaluate runs the policies in a model")(
      "budget", word(),
      "64: tokens; 20%: of the text, in prefill mode and at sampled steps the budget as requested; "
      "64KiB: rows of both that were asked for by this size. All where none is named")(
      "mode", word(),
      "as rows name it: stream, stream:every=10, prefill:interval=never. All where none is named")(
      "mode-b", word(),
      "B's rows are of this mode, A's of --mode: optimal optimal --mode stream --mode-b "
      "stream:page=16 is the price of pages")(
      "seed", po::value<std::int64_t>(),
      "of random choices; the mean over all where none is named")(
      "trace-id", word(), "rows of this trace; its first characters are enough")(
      "sequences", word(), "names, separated by commas")("format", word()->default_value("table"),
                                                         "table, csv or json");
  options.add(plugin_options());
  return options;
}

/// The rows whose value is one of `wanted`. Throws UsageError for a value that no row has.
void select_rows(std::vector<std::vector<MeasuredRow>>& rows, const std::string& option,
                 const std::vector<std::string>& wanted, std::string MeasuredRow::*member) {
  std::set<std::string> there;
  for (const std::vector<MeasuredRow>& of_policy : rows) {
    for (const MeasuredRow& row : of_policy) there.insert(row.*member);
  }
  const std::vector<std::string> values(there.begin(), there.end());
  for (const std::string& value : wanted) {
    if (there.contains(value)) continue;
    throw UsageError(fmt::format("--{}: no row of the policies has '{}'; did you mean '{}'?",
                                 option, value, nearest(value, values)));
  }
  for (std::vector<MeasuredRow>& of_policy : rows) {
    std::erase_if(of_policy, [&](const MeasuredRow& row) {
      return std::find(wanted.begin(), wanted.end(), row.*member) == wanted.end();
    });
  }
}

/// The trace whose id begins with `start`. Throws UsageError if there is not exactly one.
std::string trace_id_from(const std::string& start,
                          const std::vector<std::vector<MeasuredRow>>& rows) {
  std::set<std::string> all;
  std::set<std::string> found;
  for (const std::vector<MeasuredRow>& of_policy : rows) {
    for (const MeasuredRow& row : of_policy) {
      all.insert(row.trace_id);
      if (row.trace_id.starts_with(start)) found.insert(row.trace_id);
    }
  }
  if (found.size() == 1) return *found.begin();
  throw UsageError(fmt::format(
      "--trace-id: expected the start of one of {}, found '{}', {}", fmt::join(all, ", "), start,
      found.empty() ? "which none of them starts with"
                    : fmt::format("which begins {} of them", found.size())));
}

/// Leaves A the rows of one mode and all B those of another, which make pairs all the same.
void select_modes(std::vector<std::vector<MeasuredRow>>& rows, const std::string& mode,
                  const std::string& mode_b) {
  std::vector<std::vector<MeasuredRow>> first = {std::move(rows.front())};
  rows.erase(rows.begin());
  select_rows(first, "mode", {mode}, &MeasuredRow::mode);
  select_rows(rows, "mode-b", {mode_b}, &MeasuredRow::mode);
  for (std::vector<MeasuredRow>& of_policy : rows) {
    for (MeasuredRow& row : of_policy) row.pairs_as = mode;
  }
  rows.insert(rows.begin(), std::move(first.front()));
}

void select_rows(std::vector<std::vector<MeasuredRow>>& rows, const po::variables_map& values) {
  if (values.count("trace-id") > 0) {
    select_rows(rows, "trace-id", {trace_id_from(values["trace-id"].as<std::string>(), rows)},
                &MeasuredRow::trace_id);
  }
  if (values.count("sequences") > 0) {
    select_rows(rows, "sequences", parse_list(values["sequences"].as<std::string>(), "--sequences"),
                &MeasuredRow::sequence);
  }
  if (values.count("mode-b") > 0) {
    if (values.count("mode") == 0) {
      throw UsageError("--mode-b: expected --mode, the mode of A's rows, found none; name both");
    }
    select_modes(rows, values["mode"].as<std::string>(), values["mode-b"].as<std::string>());
  } else if (values.count("mode") > 0) {
    select_rows(rows, "mode", {values["mode"].as<std::string>()}, &MeasuredRow::mode);
  }
  if (values.count("seed") > 0) {
    const auto seed = values["seed"].as<std::int64_t>();
    for (std::vector<MeasuredRow>& of_policy : rows) {
      std::erase_if(of_policy, [&](const MeasuredRow& row) { return row.seed != seed; });
    }
  }
}

void note_unpaired(const Unpaired& unpaired, const std::string& policy, const std::string& other) {
  if (unpaired.rows == 0) return;
  std::cerr << fmt::format("kvsim: left out {} {} of {} that {} does not have (at {})\n",
                           unpaired.rows, unpaired.rows == 1 ? "row" : "rows", policy, other,
                           fmt::join(unpaired.budgets, ", "));
}

void note_requested_otherwise(const RequestedOtherwise& otherwise, const std::string& budget,
                              const std::string& policy) {
  if (otherwise.units == 0) return;
  std::cerr << fmt::format(
      "kvsim: left out {} {} in prefill mode or at sampled steps that {} has at other requests "
      "only ({}), which may be as many tokens as {} of the prompt or text; to have them, name the "
      "budget as they do, or in tokens\n",
      otherwise.units, otherwise.units == 1 ? "unit" : "units", policy,
      fmt::join(otherwise.budgets, ", "), budget);
}

std::string verdict_on(const Difference& difference, Preferred better) {
  if (!difference.has_enough_samples()) {
    return fmt::format("too few samples ({}) to tell", difference.samples);
  }
  if (!difference.is_distinguishable()) return "not distinguishable";
  const bool is_higher = difference.estimate.value > 0;
  if (better == Preferred::neither) return is_higher ? "A higher" : "B higher";
  return is_higher == (better == Preferred::higher) ? "A better" : "B better";
}

class ComparisonTable {
 public:
  /// `mode_b`: of B's rows, where it is not A's; else empty.
  ComparisonTable(bool names_b, const std::string& mode_b, bool has_verdict, Preferred better)
      : names_b_(names_b), mode_b_(mode_b), has_verdict_(has_verdict), better_(better) {
    if (names_b) table_.columns.emplace_back("b");
    for (const char* column :
         {"budget", "mode", "mode_b", "difference", "low", "high", "samples", "sampled"}) {
      if (!mode_b.empty() || column != std::string_view("mode_b")) {
        table_.columns.emplace_back(column);
      }
    }
    if (has_verdict) table_.columns.emplace_back("verdict");
  }

  void add(const std::string& b, const Difference& difference) {
    std::vector<Value>& row = table_.rows.emplace_back();
    if (names_b_) row.emplace_back(b);
    const auto& interval = difference.estimate.interval;
    row.push_back(difference.budget);
    row.emplace_back(difference.mode);
    if (!mode_b_.empty()) row.emplace_back(mode_b_);
    row.emplace_back(difference.estimate.value);
    row.push_back(value_of(interval ? std::optional(interval->low) : std::nullopt));
    row.push_back(value_of(interval ? std::optional(interval->high) : std::nullopt));
    row.emplace_back(static_cast<std::int64_t>(difference.samples));
    row.emplace_back(difference.of_sequences ? "sequences" : "units");
    if (has_verdict_) row.emplace_back(verdict_on(difference, better_));
    over_units_ = over_units_ || !difference.of_sequences;
  }

  const Table& table() const { return table_; }
  bool over_units() const { return over_units_; }

 private:
  bool names_b_;
  std::string mode_b_;
  bool has_verdict_;
  Preferred better_;
  Table table_;
  bool over_units_ = false;
};

std::string better_sign(Preferred better) {
  if (better == Preferred::neither) return "";
  return better == Preferred::higher ? " (higher is better)" : " (lower is better)";
}

void write_for_people(const ComparisonTable& comparison, const std::vector<std::string>& policies,
                      const ColumnSchema& metric) {
  const bool several = policies.size() > 2;
  std::cout << fmt::format(
      "{}{}: A - B, with 95% intervals of the paired bootstrap, {} draws\nA: {}\n", metric.name,
      better_sign(metric.preferred), PairedBootstrap::kDraws, printable(policies.front()));
  if (!several) std::cout << fmt::format("B: {}\n", printable(policies[1]));
  std::cout << '\n';
  write_aligned(std::cout, comparison.table());
  if (comparison.over_units()) {
    std::cout << fmt::format(
        "\nUnits are sampled where there are fewer than {} sequences: the interval says nothing "
        "about other texts.\n",
        PairedBootstrap::kFewestSamples);
  }
  if (metric.is_open_loop) {
    std::cout << '\n' << kOpenLoop;
  }
  if (several) {
    std::cout << "\nEach interval is for its row alone, not corrected for the number of rows.\n";
  }
}

/// The rows of the policy with the metric. Throws DataError if its table has none.
std::vector<MeasuredRow> measured_rows(const ResultStore& store, const std::string& policy,
                                       const Metric& metric, const std::string& file) {
  if (!metric.is_of_layers()) return measured(store.policy_results(policy), metric);
  std::vector<MeasuredRow> rows = measured(store.policy_layer_errors(policy));
  if (!rows.empty()) return rows;
  throw DataError(fmt::format(
      "{}: expected rows of {} in the table layer_error, found none; sweep a trace that "
      "was recorded with --also output_projection",
      file, policy));
}

}  // namespace

int run_compare(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto values = parse(verb, arguments, compare_options(), {"RESULTS.sqlite", "A", "B"});
  if (!values) return 0;
  const std::string file = positional_from(verb, *values, "RESULTS.sqlite");
  std::vector<std::string> policies = {positional_from(verb, *values, "A")};
  for (const std::string& b : positionals_from(verb, *values, "B")) policies.push_back(b);
  const std::string format = choice_from(*values, "format", {"table", "csv", "json"});
  const Metric metric = metric_named((*values)["metric"].as<std::string>());
  std::optional<Amount> budget;
  if (values->count("budget") > 0) {
    budget = Amount::parse_budget((*values)["budget"].as<std::string>(), "--budget");
  }

  const ResultStore store(file, ResultStore::Access::read);
  const std::vector<std::string> there = store.policies();
  if (there.empty()) {
    throw DataError(fmt::format("{}: no rows to compare; kvsim sweep writes some", file));
  }
  std::vector<std::vector<MeasuredRow>> rows;
  for (std::string& policy : policies) {
    policy = stored_policy(policy, there, store, file);
    rows.push_back(measured_rows(store, policy, metric, file));
  }
  select_rows(rows, *values);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].empty()) {
      throw UsageError(
          fmt::format("{} has no rows of {} with all that the options ask for", file, policies[i]));
    }
  }
  const std::string mode_b =
      values->count("mode-b") > 0 ? (*values)["mode-b"].as<std::string>() : "";
  ComparisonTable comparison(policies.size() > 2, mode_b, format == "table",
                             metric.declared.preferred);
  for (std::size_t b = 1; b < policies.size(); ++b) {
    const PairedComparison compared = compare_rows(rows.front(), rows[b], metric, budget);
    note_unpaired(compared.only_first, policies.front(), policies[b]);
    note_unpaired(compared.only_second, policies[b], policies.front());
    if (budget) note_requested_otherwise(compared.otherwise, budget->written(), policies[b]);
    for (const Difference& difference : compared.differences) {
      comparison.add(policies[b], difference);
    }
  }
  if (format == "csv") {
    print_csv(comparison.table());
  } else if (format == "json") {
    write_json(std::cout, comparison.table());
  } else {
    write_for_people(comparison, policies, metric.declared);
  }
  return 0;
}

}  // namespace kvsim::cli
