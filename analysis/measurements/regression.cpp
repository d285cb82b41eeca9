// The sparsity-inducing softmax regression of H2O's appendix D on recorded attention: the query
// whose softmax over the keys best matches a step's attention under a penalty on its mass.

#include <fmt/format.h>

#include <Eigen/Eigenvalues>
#include <cmath>

#include "analysis/fits/approximate_newton.h"
#include "analysis/fits/softmax_regression.h"
#include "analysis/row_analysis.h"
#include "traces/unit_seed.h"

namespace kvsim {
namespace {

class Regression final : public RowAnalysis {
 public:
  Regression(const Params& params, const Subject& subject)
      : RowAnalysis(subject), params_(params), steps_(params.integer("steps")) {}

  std::vector<AnalysisRow> finish() override { return std::move(rows_); }

 private:
  void add_row(const AttentionRow& row) override {
    const std::int64_t n = unit().num_tokens();
    for (std::int64_t i = 1; i <= steps_; ++i) {
      if (row.step != i * n / steps_ - 1) continue;
      rows_.push_back({row.head, solve(row)});
      return;
    }
  }

  std::vector<Value> solve(const AttentionRow& row) const {
    const auto tokens = std::ssize(row.visible);
    const Eigen::MatrixXd a =
        static_cast<double>(unit().scale) * unit().key(row.visible, Eigen::all).cast<double>();
    Eigen::VectorXd b(tokens);
    for (Eigen::Index i = 0; i < tokens; ++i) b[i] = row.attention(row.visible[i]);
    const double least = params_.real("l");
    const double sigma = smallest_singular_value(a);
    std::vector<Value> values{std::int64_t{row.step},   least,          params_.real("weight"),
                              params_.real("epsilon1"), subject().seed, std::int64_t{tokens},
                              std::int64_t{a.cols()},   sigma};
    const std::vector<Value> found = solution(a, b, sigma, unit().query[row.head].row(row.step));
    values.insert(values.end(), found.begin(), found.end());
    return values;
  }

  std::vector<Value> solution(const Eigen::MatrixXd& a, const Eigen::VectorXd& b, double sigma,
                              const Eigen::RowVectorXf& recorded) const {
    const double least = params_.real("l");
    try {
      const double asked = least_weight(least, sigma);
      const double squared = params_.real("weight") == 0 ? asked : params_.real("weight");
      const Eigen::VectorXd w = Eigen::VectorXd::Constant(b.size(), std::sqrt(squared));
      const SoftmaxRegression regression(a, b, w);
      const NewtonOptions options{
          .epsilon1 = params_.real("epsilon1"),
          .seed = unit_seed(static_cast<std::uint64_t>(subject().seed), unit().name)};
      const Eigen::VectorXd start = Eigen::VectorXd::Zero(a.cols());
      const NewtonResult result = approximate_newton(regression, start, options);
      const SoftmaxRegression::Losses losses = regression.losses(result.x);
      const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(regression.hessian(result.x),
                                                                  Eigen::EigenvaluesOnly);
      const double eigenvalue = solver.eigenvalues()[0];
      const double distance = (result.x - recorded.cast<double>().transpose()).norm();
      return {asked,
              squared,
              std::int64_t{squared >= asked},
              eigenvalue,
              std::int64_t{eigenvalue >= least * (1 - 1e-9)},
              std::int64_t{result.converged},
              std::int64_t{result.iterations},
              std::int64_t{result.rows},
              result.gradient_norm,
              losses.exp,
              losses.sparse,
              losses.reg,
              losses.total(),
              distance,
              std::string()};
    } catch (const std::invalid_argument& error) {
      std::vector<Value> values(15, std::monostate());
      values.back() = std::string(error.what());
      return values;
    }
  }

  Params params_;
  int steps_;
  std::vector<AnalysisRow> rows_;
};

/// The keys in double precision, and three copies of them on the way.
AnalysisMemory memory_of_regression(const Params&, const AnalysisSize& size) {
  return {.rows = 0, .bytes = 4 * size.tokens * (size.head_dim + 4) * sizeof(double)};
}

}  // namespace

AnalysisInfo regression_analysis() {
  return {
      .name = "regression",
      .shows = "per query head and chosen step: the minimiser of L_exp + L_sparse + L_reg",
      .source = "H2O appendices D.17 to D.22, Lemma D.47, Algorithm 4",
      .notes =
          "A is the scaled keys that the step sees, b its full attention, which sums to less than "
          "1 where there is a learned sink; all w_i are equal; x begins at 0; signs of the "
          "paper are corrected as softmax_regression.h and approximate_newton.h say",
      .params = {Param::integer("steps", 1, 1, 100'000,
                                "steps to solve for, evenly spaced, the last one included"),
                 Param::real("l", 1, 1e-9, 1e9, "the curvature that Lemma D.47 is to assure"),
                 Param::real("weight", 0, 0, 1e15, "w_i^2; 0: what Lemma D.47 asks for"),
                 Param::real("epsilon1", 0.25, 1e-3, 0.999,
                             "how far the sampled matrix of Algorithm 4 may be off")},
      .columns = {integer_column("step", "t, 0-based").key(),
                  real_column("l", "the curvature that Lemma D.47 is to assure").key(),
                  real_column("weight", "w_i^2 as asked for; 0: what the lemma asks for").key(),
                  real_column("epsilon1", "accuracy of the sampled matrix").key(),
                  integer_column("seed", "of the samples").key(),
                  integer_column("tokens", "rows of A: tokens that the step sees"),
                  integer_column("dim", "columns of A: head_dim"),
                  real_column("sigma_min", "smallest singular value of A"),
                  real_column("weight_asked",
                              "20 + l / sigma_min^2, the least w_i^2 of Lemma D.47"),
                  real_column("weight_used", "w_i^2"),
                  integer_column("assumptions_hold",
                                 "1 if weight_used >= weight_asked, else 0: the lemma "
                                 "then says nothing"),
                  real_column("least_eigenvalue", "of the Hessian at the solution"),
                  integer_column("holds", "1 if it is at least l, else 0"),
                  integer_column("converged",
                                 "1 if Algorithm 4 came to a step of at most 1e-8, else 0"),
                  integer_column("iterations", "of Algorithm 4"),
                  integer_column("sampled_rows", "most rows of A that one iteration used"),
                  real_column("gradient_norm", "|gradient| at the solution"),
                  real_column("loss_exp", "0.5 |f - b|^2 (Definition D.39)"),
                  real_column("loss_sparse", "sum of exp(A x) (Definition D.41)"),
                  real_column("loss_reg", "0.5 |diag(w) A x|^2 (Definition D.40)"),
                  real_column("loss", "their sum (Definition D.43)"),
                  real_column("distance", "of the solution to the recorded query, in its units"),
                  text_column("not_solved", "why not, else empty; numbers are then NULL")},
      .summary = {"weight_asked", "least_eigenvalue", "holds", "converged", "iterations",
                  "sampled_rows", "loss"},
      .memory = memory_of_regression,
      .make = make_analysis<Regression>};
}

}  // namespace kvsim
