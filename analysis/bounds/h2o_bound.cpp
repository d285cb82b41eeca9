// H2O Theorem 4.4 (formal: D.32) beside measurements: is the value of the set that a policy keeps
// close to that of the best set of the same size?
//
// The value of a set Y at step i is f_i(Y) = h(sum of o_{i,j} over j in Y), the score function of
// Algorithms 1 and 2: o is the attention of the step, or accumulated up to it. As h never
// decreases, the best set is that of the largest scores, which gives the exact optimum of
// Definition D.27.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>

#include "analysis/policy_runs.h"
#include "analysis/row_analysis.h"

namespace kvsim {
namespace {

class H2oBound final : public Analysis {
 public:
  H2oBound(const Params& params, const Subject& subject)
      : subject_(subject),
        unit_(subject.unit),
        score_(params.choice("score")),
        function_(params.choice("h")),
        scores_(unit_.num_tokens(), 0),
        previous_(unit_.num_tokens(), 0),
        measured_(subject.runs.size()) {}

  void add(const AttentionBlock& block) override {
    for (int row = 0; row < block.num_steps; ++row) add_step(block, row);
  }

  std::vector<AnalysisRow> finish() override {
    std::vector<AnalysisRow> rows;
    for (std::size_t run = 0; run < measured_.size(); ++run) {
      if (measured_[run].steps == 0) continue;
      const std::vector<Value> values = with_run_values(
          subject_, subject_.runs[run], values_of(subject_.runs[run], measured_[run]));
      for (int head = 0; head < unit_.group_size(); ++head) rows.push_back({head, values});
    }
    return rows;
  }

 private:
  struct Measured {
    std::int64_t steps = 0;
    std::int64_t evicting_steps = 0;
    std::int64_t greedy_steps = 0;  // of evicting_steps
    double ratio_sum = 0;
    double ratio_min = 1;
    double theta = 0;
    double gamma = 0;          // as Lemma D.29 uses it
    double gamma_printed = 0;  // as Definition D.28 prints it
    double log_induction = 0;  // log of the product of (1 - theta_i) (1 - gamma_i)
    double previous_optimum = 0;
  };

  void add_step(const AttentionBlock& block, int row) {
    const int step = block.first_step + row;
    previous_ = scores_;
    if (score_ == "step") std::fill(scores_.begin(), scores_.end(), 0);
    for (const HeadAttention& head : block.heads) {
      const double sum = head.weight_sum[row] * unit_.group_size();
      for (int j = first_visible(unit_, step); j <= step; ++j)
        scores_[j] += head.weight(row, j) / sum;
    }
    for (std::size_t run = 0; run < measured_.size(); ++run) {
      measure(subject_.runs[run], step, measured_[run]);
    }
  }

  void measure(const PolicyRun& run, int step, Measured& measured) {
    const std::vector<std::int32_t>& evicted_after = run.trajectory.evicted_after;
    if (step < *std::min_element(evicted_after.begin(), evicted_after.end())) return;
    double kept = 0;
    double kept_before = 0;  // the same set at the step before
    double least_kept = std::numeric_limits<double>::infinity();
    double most_evicted = 0;
    bool evicts = false;
    for (int j = 0; j <= step; ++j) {
      if (is_kept(run, j, step)) {
        kept += scores_[j];
        kept_before += previous_[j];
        least_kept = std::min(least_kept, scores_[j]);
      } else if (is_attended(run, j, step)) {
        most_evicted = std::max(most_evicted, scores_[j]);
        evicts = true;
      }
    }
    const double optimum = value(best(run.peak, step));
    const double achieved = value(kept);
    const double ratio = optimum == 0 ? 1 : achieved / optimum;
    const double theta = fall(value(kept_before), achieved);
    measured.ratio_sum += ratio;
    measured.ratio_min = std::min(measured.ratio_min, ratio);
    measured.theta = std::max(measured.theta, theta);
    measured.evicting_steps += evicts;
    measured.greedy_steps += evicts && most_evicted <= least_kept;
    measured.log_induction += std::log1p(-theta);
    if (measured.steps > 0) {
      const double gamma = fall(optimum, measured.previous_optimum);
      measured.gamma = std::max(measured.gamma, gamma);
      measured.gamma_printed =
          std::max(measured.gamma_printed, fall(measured.previous_optimum, optimum));
      measured.log_induction += std::log1p(-gamma);
    }
    measured.previous_optimum = optimum;
    ++measured.steps;
  }

  /// The smallest x >= 0 such that to >= (1 - x) * from.
  static double fall(double from, double to) { return from <= to ? 0 : 1 - to / from; }

  // The sum of the `budget` largest scores.
  double best(int budget, int step) {
    sorted_.assign(scores_.begin(), scores_.begin() + step + 1);
    const auto end = sorted_.begin() + std::min(budget, step + 1);
    if (end != sorted_.end())
      std::nth_element(sorted_.begin(), end, sorted_.end(), std::greater<>());
    return std::accumulate(sorted_.begin(), end, 0.0);
  }

  double value(double sum) const {
    if (function_ == "sqrt") return std::sqrt(sum);
    if (function_ == "log1p") return std::log1p(sum);
    return sum;
  }

  std::vector<Value> values_of(const PolicyRun& run, const Measured& measured) const {
    const double greedy = 1 - 1 / std::numbers::e;
    const double alpha = 10.0 * unit_.num_tokens() * std::max(measured.theta, measured.gamma);
    std::optional<double> bound;
    if (alpha < 1) bound = greedy * (1 - alpha);
    std::vector<std::string> broken;
    if (measured.greedy_steps < measured.evicting_steps) {
      broken.emplace_back("the policy does not always evict the lowest score");
    }
    if (measured.steps < 2) broken.emplace_back("there is no second step to compare with");
    if (!bound) broken.emplace_back("alpha >= 1");
    const auto steps = static_cast<double>(measured.steps);
    std::optional<std::int64_t> holds;
    if (bound) holds = measured.ratio_min >= *bound;
    return {
        score_,
        function_,
        std::int64_t{run.peak},
        measured.steps,
        measured.ratio_sum / steps,
        measured.ratio_min,
        measured.theta,
        measured.gamma,
        measured.gamma_printed,
        alpha,
        value_of(bound),
        greedy * std::exp(measured.log_induction),
        static_cast<double>(measured.greedy_steps) / static_cast<double>(measured.evicting_steps),
        std::int64_t{broken.empty()},
        fmt::format("{}", fmt::join(broken, "; ")),
        value_of(holds)};
  }

  const Subject& subject_;
  const Unit& unit_;
  std::string score_;
  std::string function_;
  std::vector<double> scores_;    // per token: o_{i,j}, mean over the group
  std::vector<double> previous_;  // at the step before
  std::vector<double> sorted_;
  std::vector<Measured> measured_;  // per run
};

}  // namespace

AnalysisInfo h2o_bound_analysis() {
  return {
      .name = "h2o-bound",
      .shows = "per head and replay: Theorem 4.4 beside the measured ratio to the optimum",
      .source = "H2O Theorem 4.4 / D.32, Definitions D.25, D.27, D.28, Lemma D.29, Remark D.14",
      .notes =
          "theta and gamma are measured on the sets that occur, the definitions ask it of all "
          "sets; "
          "Definition D.28 prints opt_i >= (1 - gamma) opt_{i-1}, Lemma D.29 uses opt_{i+1}: alpha "
          "is of the latter; attention is the full one, the group's mean, so its query heads have "
          "the same rows; the theorem's beta, which stands for what approximate scores cost, is "
          "taken "
          "as 0, as in Lemma D.31",
      .params = {Param::choice("score", {"accumulated", "step"},
                               "what a token is worth: its accumulated attention (Algorithm 2) or "
                               "that of the step (Algorithm 1 as printed)"),
                 Param::choice("h", {"identity", "sqrt", "log1p"}, "the function of Remark D.14")},
      .columns = with_run_columns(
          {text_column("score", "accumulated (Algorithm 2) or step (Algorithm 1 as printed)").key(),
           text_column("h", "the function of Remark D.14").key(),
           integer_column("peak_tokens", "k, the most tokens that the head holds after a step"),
           integer_column("steps", "that count: from the first one after which a token left"),
           real_column("ratio_mean", "mean over steps of f(S_i) / opt_i; 0..1"),
           real_column("ratio_min", "the least of them"),
           real_column("theta", "least theta of Definition D.25 for all steps; 0..1"),
           real_column("gamma", "least gamma of Definition D.28 as Lemma D.29 uses it; 0..1"),
           real_column("gamma_printed", "the same as Definition D.28 prints it"),
           real_column("alpha",
                       "10 n max(theta, gamma), as the proof chooses them; from 1 on the "
                       "theorem says nothing"),
           real_column("bound", "(1 - 1/e) (1 - alpha); NULL if alpha >= 1"),
           real_column("induction_bound",
                       "(1 - 1/e) times the product of (1 - theta_i) "
                       "(1 - gamma_i) as measured: what Lemma D.29 gives"),
           real_column("greedy_share",
                       "of the steps that evict, the share after which nothing kept scores less "
                       "than what leaves; 0..1"),
           integer_column("assumptions_hold",
                          "1 if the policy is greedy and alpha < 1, else 0: the "
                          "bound is then used outside its assumptions"),
           text_column("broken_assumptions", "which do not, empty if none"),
           integer_column("holds", "1 if ratio_min >= bound, else 0; NULL without a bound")}),
      .summary = {"ratio_mean", "ratio_min", "alpha", "bound", "induction_bound", "greedy_share",
                  "assumptions_hold"},
      .summary_by = {"policy", "budget"},
      .accepts = evicts_exactly,
      .make = make_analysis<H2oBound>};
}

}  // namespace kvsim
