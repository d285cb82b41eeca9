// Scissorhands Theorem 4.1 and Theorem B.3 compared with measurements.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "analysis/attention_sample.h"
#include "analysis/bounds/scissorhands_lambda.h"
#include "analysis/bounds/scissorhands_theorem.h"
#include "analysis/fits/shifted_power_law_fit.h"
#include "analysis/policy_runs.h"
#include "traces/unit_seed.h"

namespace kvsim {
namespace {

constexpr double kPlausible = 0.1;  // Clauset, Shalizi and Newman section 4.1

std::optional<double> if_finite(double x) {
  return std::isfinite(x) ? std::optional(x) : std::nullopt;
}

// A loss, an error or a probability at or below 0 bounds nothing.
std::optional<double> if_positive(double bound) {
  return bound > 0 ? if_finite(bound) : std::nullopt;
}

class ScissorhandsBound final : public RowAnalysis {
 public:
  ScissorhandsBound(const Params& params, const Subject& subject)
      : RowAnalysis(subject),
        params_(params),
        first_step_(
            std::max({1, params.amount("start", unit().num_tokens()), subject.first_measured()})),
        sample_(subject, params.integer("sample"), first_step_),
        measured_(subject.runs.size(), std::vector<Measured>(unit().query.size())) {}

  std::vector<AnalysisRow> finish() override {
    std::vector<AnalysisRow> rows;
    for (int head = 0; head < unit().group_size(); ++head) {
      const Bootstrap bootstrap{
          params_.integer("bootstrap"),
          random_bits(unit_seed(static_cast<std::uint64_t>(subject().seed), unit().name),
                      static_cast<std::uint64_t>(head))};
      const auto law = fit_shifted_power_law(sample_.of_head(head), bootstrap);
      const LambdaCondition lambda = lambda_condition(unit(), head);
      for (std::size_t run = 0; run < measured_.size(); ++run) {
        if (measured_[run][head].steps == 0) continue;
        rows.push_back({head, with_run_values(subject(), subject().runs[run],
                                              row_of(run, head, law, lambda))});
      }
    }
    return rows;
  }

 private:
  struct Measured {
    std::int64_t steps = 0;
    double loss = 0;
    double least_possible = 0;
    double error = 0;
    std::int64_t keeps_largest = 0;  // steps
  };

  void add_row(const AttentionRow& row) override {
    sample_.add(row);
    if (row.step < first_step_) return;
    const double sum = weight_before(row);
    if (sum == 0) return;
    for (std::size_t run = 0; run < measured_.size(); ++run) {
      measure(row, sum, subject().runs[run], measured_[run][row.head]);
    }
  }

  // Adds the beta_{t,j} of the missing tokens, and of those that the best set of the same size
  // would miss.
  void measure(const AttentionRow& row, double sum, const PolicyRun& run, Measured& measured) {
    weights_.assign(row.weight().begin() + row.first_visible, row.weight().end() - 1);
    double kept = 0;
    std::size_t num_kept = 0;
    for (int j = 0; j < row.step; ++j) {
      if (!is_attended(run, j, row.step)) continue;
      ++num_kept;
      if (j >= row.first_visible) kept += row.weight()[j];
    }
    double best = sum;
    if (num_kept < weights_.size()) {
      const auto end = weights_.begin() + static_cast<std::ptrdiff_t>(num_kept);
      std::nth_element(weights_.begin(), end, weights_.end(), std::greater<>());
      best = std::accumulate(weights_.begin(), end, 0.0);
    }
    const int column = row.step - subject().first_measured();
    ++measured.steps;
    measured.loss += std::max(0.0, 1 - kept / sum);
    measured.least_possible += std::max(0.0, 1 - best / sum);
    measured.error += run.trajectory.output_error(row.head, column);
    measured.keeps_largest += kept >= best * (1 - 1e-9);
  }

  std::vector<Value> row_of(std::size_t run, int head, const std::optional<ShiftedPowerLawFit>& law,
                            const LambdaCondition& lambda) const {
    const Measured& measured = measured_[run][head];
    const int last = unit().num_tokens();
    const double epsilon = params_.real("epsilon");
    const double share = std::min(1.0, static_cast<double>(subject().runs[run].peak) / last);
    const auto steps = static_cast<double>(measured.steps);
    std::optional<ScissorhandsTheorem> theorem;
    std::optional<double> law_loss;
    if (law) {
      const AssumedLaw assumed{law->exponent, law->shift, law->upper};
      if (assumed.k > 1) law_loss = if_finite(loss_of_law(assumed, share));
      if (assumed.k > 2 && share > epsilon) {
        theorem = scissorhands_theorem(assumed, share, epsilon, first_step_ + 1, last);
      }
    }
    const auto of_law = [&](double ShiftedPowerLawFit::*member) {
      return value_of(law ? std::optional((*law).*member) : std::nullopt);
    };
    const auto of_theorem = [&](double ScissorhandsTheorem::*member) {
      return value_of(theorem ? if_positive((*theorem).*member) : std::nullopt);
    };
    const double loss = measured.loss / steps;
    const std::string broken = broken_assumptions(law, theorem, lambda, measured, share, epsilon);
    std::optional<std::int64_t> holds;
    std::optional<std::int64_t> proven_holds;
    if (theorem && theorem->loss > 0) holds = loss <= theorem->loss;
    if (theorem) proven_holds = loss <= theorem->proven_loss;
    return {epsilon,
            std::int64_t{first_step_},
            std::int64_t{params_.integer("sample")},
            std::int64_t{params_.integer("bootstrap")},
            std::ssize(sample_.of_head(head)),
            share,
            of_law(&ShiftedPowerLawFit::exponent),
            of_law(&ShiftedPowerLawFit::shift),
            of_law(&ShiftedPowerLawFit::upper),
            of_law(&ShiftedPowerLawFit::p_value),
            of_theorem(&ScissorhandsTheorem::error),
            measured.error / steps,
            of_theorem(&ScissorhandsTheorem::loss),
            of_theorem(&ScissorhandsTheorem::proven_loss),
            loss,
            measured.least_possible / steps,
            value_of(law_loss),
            of_theorem(&ScissorhandsTheorem::probability),
            lambda.query_key,
            value_of(lambda.value_output),
            value_of(lambda.left_side()),
            static_cast<double>(measured.keeps_largest) / steps,
            std::int64_t{broken.empty()},
            broken,
            value_of(holds),
            value_of(proven_holds)};
  }

  // Of the assumptions that a trace can check.
  std::string broken_assumptions(const std::optional<ShiftedPowerLawFit>& law,
                                 const std::optional<ScissorhandsTheorem>& theorem,
                                 const LambdaCondition& lambda, const Measured& measured,
                                 double share, double epsilon) const {
    std::vector<std::string> broken;
    if (!law) {
      broken.emplace_back("too few scores to fit a law");
    } else {
      if (law->p_value < kPlausible || law->at_limit) broken.emplace_back("no power law");
      if (law->exponent <= 2) broken.emplace_back("k <= 2");
      if (law->upper < 5 * law->shift) broken.emplace_back("u < 5 b");
    }
    if (lambda.is_broken()) broken.emplace_back("lambda > 1/2");
    if (!unit().sink_logit.empty()) broken.emplace_back("a learned sink takes attention");
    if (share <= epsilon) broken.emplace_back("B/T <= epsilon");
    if (measured.keeps_largest < measured.steps) {
      broken.emplace_back("the largest scores are not always kept");
    }
    // What the last two steps of the proof need.
    if (share < (1 + epsilon) / 2) broken.emplace_back("B/T < (1 + epsilon)/2");
    if (theorem && delta_share({law->exponent, law->shift, law->upper}) < 0.98) {
      broken.emplace_back("Delta < 0.98 b");
    }
    if (theorem && theorem->probability <= 0) broken.emplace_back("the probability is 0");
    return fmt::format("{}", fmt::join(broken, "; "));
  }

  Params params_;
  int first_step_;
  AttentionSample sample_;
  std::vector<std::vector<Measured>> measured_;  // per run and head
  std::vector<float> weights_;
};

}  // namespace

AnalysisInfo scissorhands_bound_analysis() {
  return {
      .name = "scissorhands-bound",
      .shows =
          "per query head and replay: the bound of Theorem 4.1 and the measured loss and error",
      .source = "Scissorhands Theorem 4.1 equation (4), appendix B.3 equation (11)",
      .notes =
          "the theorem is for Algorithm 2 with m = 1, a cache that drops one token at a time; "
          "it also assumes norms of the model's weights, of which a trace tells lower bounds "
          "(lambda; where projections have neither bias nor norm; the theorem divides logits by "
          "t, which would make them larger), and bounds the distance of token embeddings of "
          "length 1: output_error is the nearest that can be measured, relative to the output; "
          "it speaks of expectations at every step, for which means over steps stand here; "
          "T_max is the number of tokens, T_min = start + 1; beta does not count the step's own "
          "token and a learned sink; the last steps of the proof need B/T_max >= (1 + "
          "epsilon)/2 and Delta >= 0.98 b, see analysis/README.md",
      .params = {Param::real("epsilon", 0.05, 1e-6, 0.999, "epsilon of the theorem"),
                 Param::amount("start", "0.5",
                               "the first step that counts, tokens or a share of "
                               "the sequence"),
                 Param::integer("sample", 1000, 10, 100'000,
                                "values of beta_{t,j} per head that the law is fitted to"),
                 Param::integer("bootstrap", 100, 10, 10'000, "synthetic samples per p-value")},
      .columns = with_run_columns(
          {real_column("epsilon", "epsilon of the theorem").key(),
           integer_column("start",
                          "the first step that counts and is fitted to; in prefill mode "
                          "at least the prompt's length")
               .key(),
           integer_column("sample", "values of beta_{t,j} asked for").key(),
           integer_column("bootstrap", "synthetic samples per p-value").key(),
           integer_column("num_values", "values that there were; those above 0 are fitted"),
           real_column("budget_share",
                       "B / T_max with B the most tokens that the head holds; 0..1"),
           real_column("exponent",
                       "k, fitted to beta_{t,j} times the number of visible tokens "
                       "before t, of steps from start on"),
           real_column("shift", "b, fitted, likewise"),
           real_column("upper", "u, fitted"),
           real_column("p_value", "of the fitted law; below 0.1 it is rejected"),
           real_column("error_bound",
                       "right side of (4); NULL where it says nothing: k <= 2, B/T_max <= epsilon, "
                       "or it is not above 0"),
           real_column("output_error", "measured: mean over steps of |o - o'| / |o|"),
           real_column("loss_bound", "right side of (11); NULL likewise"),
           real_column(
               "proven_loss_bound",
               "b / (Delta (1 - epsilon)^2) ((1 - s) - (k - 1) (s - epsilon) (X - 1)), what "
               "the proof of (11) reaches before its last two steps, s = B/T_max, X = "
               "((1 - epsilon) / (s - epsilon))^(1/(k - 1)); NULL if k <= 2 or s <= "
               "epsilon"),
           real_column("loss",
                       "measured: mean over steps of the sum of beta_{t,j} over missing "
                       "tokens; 0..1"),
           real_column("loss_of_largest",
                       "the same had each step as many of the visible scores as "
                       "its cache has tokens, the largest ones, as the theorem "
                       "assumes"),
           real_column("loss_of_law",
                       "what the fitted law itself would lose, without the proof's "
                       "estimates; 0..1, NULL if k <= 1"),
           real_column("probability",
                       "the theorem's, at least; NULL where it says nothing: k <= 2, B/T_max <= "
                       "epsilon, or it is not above 0"),
           real_column("lambda_query_key",
                       "lambda_Q lambda_K, at least: scale times the largest |q| times the largest "
                       "|k|, for inputs of length 1"),
           real_column("lambda_value_output",
                       "lambda_V lambda_O, at least: the largest |v| times the largest singular "
                       "value of the head's W_O, over the largest length of the residual stream; "
                       "NULL: needs output_projection and residual"),
           real_column("lambda",
                       "lambda_V lambda_O (1 + lambda_1 lambda_2) (1 + lambda_Q lambda_K), at "
                       "least, with 1 for 1 + lambda_1 lambda_2, which needs W_1 and W_2; the "
                       "theorem asks for at most 1/2; NULL likewise"),
           real_column("keeps_largest",
                       "share of steps at which the policy had the largest scores "
                       "in its cache, up to 1e-9 of their sum; 0..1"),
           integer_column("assumptions_hold",
                          "1 if all assumptions hold that a trace can tell, else 0: the bound is "
                          "then used outside them"),
           text_column("broken_assumptions", "which do not, empty if none"),
           integer_column("holds", "1 if loss <= loss_bound, else 0; NULL without a bound"),
           integer_column("proven_holds",
                          "1 if loss <= proven_loss_bound, else 0; NULL without a bound")}),
      .summary = {"loss_bound", "proven_loss_bound", "loss", "loss_of_largest", "loss_of_law",
                  "error_bound", "output_error", "probability", "lambda", "assumptions_hold",
                  "holds", "proven_holds"},
      .summary_by = {"policy", "budget"},
      .by_token = true,
      .accepts = evicts_exactly,
      .make = make_analysis<ScissorhandsBound>};
}

}  // namespace kvsim
