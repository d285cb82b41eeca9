// SubGen Theorem 1 compared with measurements.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/fits/clustering.h"
#include "analysis/fits/spectral_norms.h"
#include "analysis/policy_runs.h"
#include "analysis/row_analysis.h"
#include "policies/registry/standard_policies.h"
#include "sim/kernels/percentile.h"

namespace kvsim {
namespace {

constexpr double kProbability = 0.99;  // of the theorem's bound, at each step

/// SubGen on the recorded keys and values; quantisation would add an error of its own.
bool is_exact_subgen(const Spec& policy) {
  return is_subgen(policy) && policy.rules({}).is_exact();
}

std::optional<double> unless_overflowed(double x) {
  return std::isfinite(x) ? std::optional(x) : std::nullopt;
}

class SubGenBound final : public RowAnalysis {
 public:
  SubGenBound(const Params& params, const Subject& subject)
      : RowAnalysis(subject),
        epsilon_(params.real("epsilon")),
        constant_(params.real("constant")),
        spectral_norm_(spectral_norms(unit().value)),
        errors_(subject.runs.size(), std::vector<std::vector<double>>(unit().query.size())) {}

  std::vector<AnalysisRow> finish() override {
    std::vector<AnalysisRow> rows;
    for (std::size_t run = 0; run < errors_.size(); ++run) {
      for (int head = 0; head < unit().group_size(); ++head) {
        if (errors_[run][head].empty()) continue;
        rows.push_back(
            {head, with_run_values(subject(), subject().runs[run],
                                   values_of(subject().runs[run], head, errors_[run][head]))});
      }
    }
    return rows;
  }

 private:
  void add_row(const AttentionRow& row) override {
    const int column = row.step - subject().first_measured();
    if (column < 0) return;
    double squares = 0;
    for (const float weight : row.weight()) squares += static_cast<double>(weight) * weight;
    const double limit = std::sqrt(squares) / row.weight_sum() * spectral_norm_[row.step];
    if (limit == 0) return;
    const double output = row.block.output.row(row.row).norm();
    for (std::size_t run = 0; run < errors_.size(); ++run) {
      const double error = subject().runs[run].trajectory.output_error(row.head, column);
      // Not a number: the replay took no error at this step.
      const double epsilon = error * output / limit;
      if (!std::isnan(epsilon)) errors_[run][row.head].push_back(epsilon);
    }
  }

  std::vector<Value> values_of(const PolicyRun& run, int head, std::vector<double> errors) const {
    std::sort(errors.begin(), errors.end());
    const Params& policy = run.policy.params();
    const double delta = policy.real("delta");
    const OnlineClusters found = cluster_online(unit().key, delta);
    const double clusters = found.counts.back();
    const double radius = static_cast<double>(unit().scale) *
                          unit().query[head].cast<double>().rowwise().norm().maxCoeff();
    const double per_square = constant_ / (epsilon_ * epsilon_);
    const double tokens = unit().num_tokens();
    const double t = std::ceil(per_square * std::exp(2 * delta * radius) * std::log(tokens));
    const double s = std::ceil(per_square * static_cast<double>(unit().value.cols()));
    const std::int64_t t_used = run.amounts.at("t");
    const std::int64_t s_used = run.amounts.at("s");
    const std::int64_t far_keys = run.amounts.at("far_keys");
    std::vector<std::string> broken;
    if (s_used == 0) broken.emplace_back("the budget has no room for a sample and a cluster");
    if (static_cast<double>(t_used) < t) broken.emplace_back("t is too small");
    if (static_cast<double>(s_used) < s) broken.emplace_back("s is too small");
    if (far_keys > 0) broken.emplace_back("the budget has no room for all clusters");
    if (unit().logit_softcap) broken.emplace_back("logits are capped");
    if (unit().sliding_window) broken.emplace_back("a window hides tokens");
    if (unit().attention_chunk) broken.emplace_back("chunks hide tokens");
    if (unit().selected) broken.emplace_back("the model selects tokens");
    const Rules rules = run.policy.rules({.budget = run.budget});
    if (rules.protect_first + rules.protect_newest > 0) broken.emplace_back("tokens are protected");
    const auto within = std::upper_bound(errors.begin(), errors.end(), epsilon_) - errors.begin();
    const double share = static_cast<double>(within) / static_cast<double>(errors.size());
    return {epsilon_,
            constant_,
            delta,
            found.radius,
            static_cast<std::int64_t>(clusters),
            radius,
            value_of(unless_overflowed(t)),
            s,
            t_used,
            s_used,
            run.amounts.at("clusters"),
            far_keys,
            value_of(unless_overflowed(clusters * (t + 1) + 2 * s)),
            std::ssize(errors),
            value_of(unless_overflowed(percentile(errors, 0.5))),
            value_of(unless_overflowed(percentile(errors, 0.95))),
            value_of(unless_overflowed(percentile(errors, kProbability))),
            value_of(unless_overflowed(errors.back())),
            share,
            std::int64_t{broken.empty()},
            fmt::format("{}", fmt::join(broken, "; ")),
            std::int64_t{share >= kProbability}};
  }

  double epsilon_;
  double constant_;
  std::vector<double> spectral_norm_;                     // |V_t|_op per step t
  std::vector<std::vector<std::vector<double>>> errors_;  // per run and head: epsilon of each step
};

}  // namespace

AnalysisInfo subgen_bound_analysis() {
  return {
      .name = "subgen-bound",
      .shows = "per query head and replay of subgen: the bound of Theorem 1 and the measured error",
      .source = "SubGen Theorem 1, Definition 1, equation (3)",
      .notes =
          "the theorem's Omega leaves its constant open, and with a constant of 1 even exact "
          "normalisers leave a root mean square error of up to epsilon, which is not within "
          "epsilon 99 times in 100; where the theorem prints Eq. (1), it means (3); it speaks of "
          "exp(<k, q>), so "
          "queries count with the trace's scale; its 0.99 is a probability at each step, over "
          "the coins of Algorithm 1, for which the share of steps of one run stands here; a "
          "learned sink "
          "is exact in the normaliser, which makes both sides smaller alike; a step "
          "whose error overflows exceeds epsilon, a step at which all values are 0 does not count",
      .params = {Param::real("epsilon", 0.5, 1e-6, 1e6, "the error that is asked for"),
                 Param::real("constant", 10, 1e-6, 1e6, "of the theorem's Omega, for s and t")},
      .columns = with_run_columns(
          {real_column("epsilon", "the error that is asked for").key(),
           real_column("constant", "C, of the theorem's Omega").key(),
           real_column("delta", "the policy's: distance of a key from the first of its cluster"),
           real_column("measured_delta",
                       "the largest such distance, were there room for all "
                       "clusters"),
           integer_column("clusters",
                          "m: clusters that Algorithm 1 forms of all keys with this "
                          "delta, at most those of Definition 1"),
           real_column("query_radius", "r: the largest |q| times the trace's scale"),
           real_column(
               "t_asked",
               "C epsilon^-2 e^(2 delta r) ln n: samples per cluster; NULL if it overflows"),
           real_column("s_asked", "C epsilon^-2 d, d the dimension of values: samples of values"),
           integer_column("t_used", "samples per cluster in the replay; 0: it had no sketches"),
           integer_column("s_used", "samples of values in the replay; 0: it had no sketches"),
           integer_column("clusters_used", "clusters in the replay after the last step"),
           integer_column("far_keys",
                          "keys that found no room for a cluster of their own in the replay, and "
                          "joined one farther than delta"),
           real_column("vectors_asked",
                       "m (t + 1) + 2 s: what a budget has to hold for what is asked; NULL if it "
                       "overflows"),
           integer_column("steps", "steps that count"),
           real_column("measured_p50",
                       "median over steps of |z - o| / (|a_t|_2 |V_t|_op), V_t the "
                       "values up to the step; NULL if it overflows"),
           real_column("measured_p95", "95th percentile of the same"),
           real_column("measured_p99", "99th percentile"),
           real_column("measured_max", "largest"),
           real_column("within", "share of steps with at most epsilon; 0..1"),
           integer_column("assumptions_hold",
                          "1 if the theorem's assumptions hold, else 0: the bound is used outside "
                          "them"),
           text_column("broken_assumptions", "which do not, empty if none"),
           integer_column("holds", "1 if within >= 0.99, else 0")}),
      .summary = {"clusters", "query_radius", "t_asked", "t_used", "s_asked", "s_used",
                  "measured_p50", "measured_p99", "within", "assumptions_hold"},
      .summary_by = {"policy", "budget"},
      .accepts = is_exact_subgen,
      .make = make_analysis<SubGenBound>};
}

}  // namespace kvsim
