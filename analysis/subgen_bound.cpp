// SubGen Theorem 1 beside what was measured.

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

#include "analysis/clustering.h"
#include "analysis/policy_runs.h"
#include "analysis/row_analysis.h"
#include "sim/core/metrics.h"

namespace kvsim {
namespace {

constexpr double kProbability = 0.99;  // of the theorem, at each step

bool is_subgen(const Spec& policy) { return policy.policy().name == "subgen"; }

/// Per step: the spectral norm of the values so far, |V_t|_op.
std::vector<double> spectral_norms(const Matrix& value) {
  const Eigen::Index dim = value.cols();
  Eigen::MatrixXd gram = Eigen::MatrixXd::Zero(dim, dim);
  std::vector<double> norms;
  for (Eigen::Index t = 0; t < value.rows(); ++t) {
    const Eigen::VectorXd row = value.row(t).cast<double>().transpose();
    gram += row * row.transpose();
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(gram, Eigen::EigenvaluesOnly);
    norms.push_back(std::sqrt(std::max(0.0, solver.eigenvalues()[dim - 1])));
  }
  return norms;
}

class SubGenBound final : public RowAnalysis {
 public:
  SubGenBound(const Params& params, const Subject& subject)
      : RowAnalysis(subject),
        epsilon_(params.real("epsilon")),
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
      errors_[run][row.head].push_back(error * output / limit);
    }
  }

  std::vector<Value> values_of(const PolicyRun& run, int head, std::vector<double> errors) const {
    std::sort(errors.begin(), errors.end());
    const Params& policy = run.policy.params();
    const double delta = policy.real("delta");
    const auto n = static_cast<double>(unit().num_tokens());
    const int clusters = count_clusters(unit().key, delta).back();
    const double radius = static_cast<double>(unit().scale) *
                          unit().query[head].cast<double>().rowwise().norm().maxCoeff();
    const double per_square = 1 / (epsilon_ * epsilon_);
    const double t = std::ceil(per_square * std::exp(2 * delta * radius) * std::log(n));
    const double s = std::ceil(per_square * static_cast<double>(unit().value.cols()));
    const double vectors = clusters * (t + 1) + 2 * s;
    const bool assumed = policy.integer("t") >= t && run.budget >= vectors && !unit().logit_softcap;
    const auto within = std::upper_bound(errors.begin(), errors.end(), epsilon_) - errors.begin();
    const double share = static_cast<double>(within) / static_cast<double>(errors.size());
    return {epsilon_,
            delta,
            std::int64_t{clusters},
            radius,
            t,
            s,
            std::int64_t{policy.integer("t")},
            vectors,
            percentile(errors, 0.5),
            percentile(errors, 0.95),
            percentile(errors, kProbability),
            errors.back(),
            share,
            std::int64_t{assumed},
            std::int64_t{share >= kProbability}};
  }

  double epsilon_;
  std::vector<double> spectral_norm_;                     // per step
  std::vector<std::vector<std::vector<double>>> errors_;  // per run and head: epsilon of each step
};

}  // namespace

AnalysisInfo subgen_bound_analysis() {
  return {
      .name = "subgen-bound",
      .shows = "per query head and replay of subgen: Theorem 1 beside the measured error",
      .source = "SubGen Theorem 1, Definition 1, equation (3)",
      .notes =
          "constants of the theorem's Omega are taken as 1; it speaks of exp(<k, q>), so "
          "queries count with the trace's scale; epsilon = 0.5 by default",
      .params = {Param::real("epsilon", 0.5, 1e-6, 1e6, "the error that is asked for")},
      .columns = with_run_columns(
          {real_column("epsilon", "the error that is asked for").key(),
           real_column("delta", "the policy's: distance of a key from the first of its cluster"),
           integer_column("clusters",
                          "m: clusters that Algorithm 1 forms of all keys with this "
                          "delta"),
           real_column("query_radius", "r: the largest |q| times the trace's scale"),
           real_column("t_asked", "epsilon^-2 e^(2 delta r) ln n: samples per cluster"),
           real_column("s_asked", "epsilon^-2 d: samples of values"),
           integer_column("t_used", "the policy's t"),
           real_column("vectors_asked", "m (t + 1) + 2 s: what a budget has to hold"),
           real_column("measured_p50", "median over steps of |z - o| / (|a_t|_2 |V_t|_op)"),
           real_column("measured_p95", "95th percentile"), real_column("measured_p99", "99th"),
           real_column("measured_max", "largest"),
           real_column("within", "share of steps with at most epsilon; the theorem says 0.99"),
           integer_column("assumptions_hold",
                          "1 if the policy has t and s of the theorem and its budget room for all "
                          "clusters, and logits are not capped; else 0: the bound is used outside "
                          "its assumptions"),
           integer_column("holds", "1 if within >= 0.99, else 0")}),
      .summary = {"clusters", "query_radius", "t_asked", "s_asked", "measured_p50", "measured_p99",
                  "within", "assumptions_hold"},
      .summary_by = {"policy", "budget"},
      .accepts = is_subgen,
      .make = make_analysis<SubGenBound>};
}

}  // namespace kvsim
