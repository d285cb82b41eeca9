// H2O Theorem 4.4 (formal: D.32) compared with measurements: is the value of the set that a policy
// keeps close to that of the best set of the same size?
//
// The value of a set Y at step i is f_i(Y) = h(sum of o_{i,j} over j in Y), the score function of
// Algorithms 1 and 2: o is the attention of the step, or accumulated up to it. As h never
// decreases, the best set is that of the largest scores, which gives the exact optimum of
// Definition D.27. The exact function takes full attention (Definition D.9), the approximate one
// attention over the tokens held (Definition D.10), which is what H2O has.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "analysis/bounds/h2o_theorem.h"
#include "analysis/policy_runs.h"
#include "analysis/row_analysis.h"

namespace kvsim {
namespace {

class H2oBound final : public Analysis {
 public:
  H2oBound(const Params& params, const Subject& subject)
      : subject_(subject),
        unit_(subject.unit),
        approximates_(params.choice("function") == "approximate"),
        score_(params.choice("score")),
        function_(params.choice("h")),
        scores_(unit_.num_tokens(), 0),
        measured_(subject.runs.size(), Measured(unit_.num_tokens())) {}

  void add(const AttentionBlock& block) override {
    for (int row = 0; row < block.num_steps; ++row) add_step(block, row);
  }

  std::vector<AnalysisRow> finish() override {
    std::vector<AnalysisRow> rows;
    for (std::size_t run = 0; run < measured_.size(); ++run) {
      if (measured_[run].theorem.steps() == 0) continue;
      const std::vector<Value> values = with_run_values(
          subject_, subject_.runs[run], values_of(subject_.runs[run], measured_[run].theorem));
      for (int head = 0; head < unit_.group_size(); ++head) rows.push_back({head, values});
    }
    return rows;
  }

 private:
  struct Measured {
    explicit Measured(int num_tokens) : cached_scores(num_tokens, 0), theorem(num_tokens) {}

    std::vector<double> cached_scores;  // per token: o_{i,j} over the tokens held
    double chosen = 0;                  // H2oStep::chosen of the step before
    H2oTheorem theorem;
  };

  void add_step(const AttentionBlock& block, int row) {
    const int step = block.first_step + row;
    if (score_ == "step") std::fill(scores_.begin(), scores_.end(), 0);
    for (const HeadAttention& head : block.heads) {
      const double sum = head.weight_sum[row] * unit_.group_size();
      for (int j = first_visible(unit_, step); j <= step; ++j)
        scores_[j] += head.weight(row, j) / sum;
    }
    for (std::size_t run = 0; run < measured_.size(); ++run) {
      if (approximates_) add_cached(subject_.runs[run], block, row, measured_[run].cached_scores);
      measure(subject_.runs[run], step, measured_[run]);
    }
  }

  // Adds to `scores` the attention of a step over the tokens that the replay holds.
  void add_cached(const PolicyRun& run, const AttentionBlock& block, int row,
                  std::vector<double>& scores) {
    const int step = block.first_step + row;
    if (score_ == "step") std::fill(scores.begin(), scores.end(), 0);
    attended_.clear();
    for (int j = first_visible(unit_, step); j <= step; ++j) {
      if (is_attended(run, j, step)) attended_.push_back(j);
    }
    for (const HeadAttention& head : block.heads) {
      double sum = head.sink_weight[row];
      for (const int j : attended_) sum += head.weight(row, j);
      if (sum == 0) continue;  // every weight underflows
      for (const int j : attended_) scores[j] += head.weight(row, j) / (sum * unit_.group_size());
    }
  }

  void measure(const PolicyRun& run, int step, Measured& measured) {
    const std::vector<double>& used = approximates_ ? measured.cached_scores : scores_;
    double kept = 0;
    double chosen = 0;
    double held = 0;
    double least_kept = std::numeric_limits<double>::infinity();
    double most_evicted = 0;
    bool evicts = false;
    for (int j = 0; j <= step; ++j) {
      if (!is_attended(run, j, step)) continue;
      if (j < step) held += used[j];
      if (is_kept(run, j, step)) {
        kept += scores_[j];
        chosen += used[j];
        least_kept = std::min(least_kept, used[j]);
      } else {
        most_evicted = std::max(most_evicted, used[j]);
        evicts = true;
      }
    }
    const double earlier = std::exchange(measured.chosen, value(chosen));
    const std::vector<std::int32_t>& evicted_after = run.trajectory.evicted_after;
    if (step < *std::min_element(evicted_after.begin(), evicted_after.end())) return;
    measured.theorem.add({.optimum = value(best(run.peak, step)),
                          .achieved = value(kept),
                          .chosen = value(chosen),
                          .held = value(held),
                          .earlier = earlier,
                          .evicts = evicts,
                          .is_greedy = most_evicted <= least_kept});
  }

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

  std::vector<Value> values_of(const PolicyRun& run, const H2oTheorem& theorem) const {
    const std::vector<std::string> broken = theorem.broken_assumptions();
    const std::optional<bool> holds = theorem.holds();
    return {std::string(approximates_ ? "approximate" : "exact"),
            score_,
            function_,
            std::int64_t{run.peak},
            theorem.steps(),
            theorem.ratio_mean(),
            theorem.ratio_min(),
            theorem.theta(),
            theorem.gamma(),
            theorem.gamma_printed(),
            theorem.epsilon0(),
            theorem.epsilon0_below(),
            theorem.alpha(),
            theorem.beta(),
            value_of(theorem.bound()),
            value_of(theorem.guaranteed_ratio()),
            value_of(theorem.induction_bound()),
            theorem.greedy_share(),
            std::int64_t{broken.empty()},
            fmt::format("{}", fmt::join(broken, "; ")),
            value_of(holds ? std::optional<std::int64_t>(*holds) : std::nullopt)};
  }

  const Subject& subject_;
  const Unit& unit_;
  bool approximates_;
  std::string score_;
  std::string function_;
  std::vector<double> scores_;  // per token: o_{i,j} over all visible tokens, mean over the group
  std::vector<double> sorted_;
  std::vector<int> attended_;
  std::vector<Measured> measured_;  // per run
};

}  // namespace

AnalysisInfo h2o_bound_analysis() {
  return {
      .name = "h2o-bound",
      .shows =
          "per head and replay: the bound of Theorem 4.4 and the measured ratio to the optimum",
      .source =
          "H2O Theorem 4.4 / D.32, Definitions D.22, D.25 to D.28, Lemmas D.29, D.30, Remark D.14",
      .notes =
          "theta, gamma and epsilon0 are measured on the sets that occur, the definitions ask it "
          "of all sets; Definition D.28 prints opt_i >= (1 - gamma) opt_{i-1}, Lemma D.29 uses "
          "opt_{i+1}: alpha is of the latter; attention is the group's mean, so its query heads "
          "have the same rows; the function exact is that of Lemma D.31, where beta is 0",
      .params = {Param::choice("function", {"exact", "approximate"},
                               "by what the policy is taken to decide: full attention (Lemmas "
                               "D.29, D.31), or attention over the tokens held (Lemma D.30, "
                               "Theorem D.32)"),
                 Param::choice("score", {"accumulated", "step"},
                               "what a token is worth: its accumulated attention (Algorithm 2) or "
                               "that of the step (Algorithm 1 as printed)"),
                 Param::choice("h", {"identity", "sqrt", "log1p"}, "the function of Remark D.14")},
      .columns = with_run_columns(
          {text_column("function",
                       "exact, or approximate: f is replaced by f~ where the policy "
                       "decides")
               .key(),
           text_column("score", "accumulated (Algorithm 2) or step (Algorithm 1 as printed)").key(),
           text_column("h", "the function of Remark D.14").key(),
           integer_column("peak_tokens", "k, the most tokens that the head holds after a step"),
           integer_column("steps", "that count: from the first one after which a token left"),
           real_column("ratio_mean", "mean over steps of f(S_i) / opt_i; 0..1"),
           real_column("ratio_min", "the least of them"),
           real_column("theta",
                       "least theta of Definition D.25, or D.26 if approximate, for all steps; "
                       "0..1"),
           real_column("gamma", "least gamma of Definition D.28 as Lemma D.29 uses it; 0..1"),
           real_column("gamma_printed", "the same as Definition D.28 prints it"),
           real_column("epsilon0",
                       "largest f~(S_i) - f(S_i), the least of the Universal Approximate Condition "
                       "in Lemma D.30; in units of h; 0 if exact"),
           real_column("epsilon0_below",
                       "largest f(S_i) - f~(S_i) beyond rounding: the fourth step of Lemma D.30 "
                       "needs 0"),
           real_column("alpha",
                       "10 n max(theta, gamma), as the proof chooses them; from 1 on the "
                       "theorem says nothing"),
           real_column("beta", "10 n epsilon0, as the proof chooses it; in units of h"),
           real_column("bound", "(1 - 1/e) (1 - alpha); NULL if alpha >= 1"),
           real_column("guaranteed_ratio",
                       "largest ((1 - 1/e) (1 - alpha) opt_i - beta) / opt_i of a step: what the "
                       "theorem says at best; NULL if not above 0"),
           real_column("induction_bound",
                       "(1 - 1/e) times the product of (1 - theta_i) (1 - gamma_i), less the sum "
                       "of epsilon0_i over the last optimum, as measured: what Lemmas D.29 and "
                       "D.30 give; NULL if not above 0"),
           real_column("greedy_share",
                       "of the steps that evict, the share after which nothing kept scores less "
                       "than what leaves; 0..1"),
           integer_column("assumptions_hold",
                          "1 if the policy is greedy, alpha < 1 and epsilon0_below is 0, else 0: "
                          "the bound is then used outside its assumptions"),
           text_column("broken_assumptions", "which do not, empty if none"),
           integer_column("holds",
                          "1 if f(S_i) >= bound opt_i - beta at every step, else 0; NULL without "
                          "guaranteed_ratio")}),
      .summary = {"ratio_mean", "ratio_min", "alpha", "beta", "guaranteed_ratio", "induction_bound",
                  "greedy_share", "assumptions_hold"},
      .summary_by = {"policy", "budget"},
      .by_token = true,
      .accepts = evicts_exactly,
      .make = make_analysis<H2oBound>};
}

}  // namespace kvsim
