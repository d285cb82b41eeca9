// (alpha, tau, k)-good attention (H2O Definition D.33, Claim D.34): is there a set S_0 of k tokens
// to which every step gives more than tau, while it gives as much to at most alpha k others?
//
// As S_0 lies inside the support of every step, |supp \ S_0| = |supp| - k: what remains to be
// decided for given alpha, tau and k is whether the supports have k tokens in common, and whether
// none has more than (1 + alpha) k.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "analysis/row_analysis.h"
#include "sim/base/interrupt.h"

namespace kvsim {
namespace {

/// Tokens with more than tau of a step's attention, ascending.
using Support = std::vector<int>;

/// Tokens to which the steps of `supports` give more than tau, and how many steps do.
std::vector<std::int64_t> steps_of_tokens(const std::vector<const Support*>& supports,
                                          int num_tokens) {
  std::vector<std::int64_t> steps(num_tokens, 0);
  for (const Support* support : supports) {
    for (const int token : *support) ++steps[token];
  }
  return steps;
}

class GoodDistribution final : public RowAnalysis {
 public:
  GoodDistribution(const Params& params, const Subject& subject)
      : RowAnalysis(subject),
        alpha_(params.real("alpha")),
        tau_(params.real("tau")),
        most_(std::min(params.integer("most"), unit().num_tokens())),
        first_step_(params.amount("start", unit().num_tokens())),
        heads_(unit().query.size(), Supports(unit().num_tokens())) {}

  std::vector<AnalysisRow> finish() override {
    std::vector<AnalysisRow> rows;
    if (first_step_ >= unit().num_tokens()) return rows;
    for (int head = 0; head < unit().group_size(); ++head) {
      for (int k = 1; k <= most_; k *= 2) rows.push_back({head, values_of(heads_[head], k)});
    }
    return rows;
  }

 private:
  struct Supports {
    explicit Supports(int num_tokens) : steps_of_token(num_tokens, 0) {}

    std::vector<std::int64_t> steps_of_token;
    std::int64_t steps = 0;
    std::int64_t tokens = 0;  // of all supports together
    std::int64_t largest = 0;
    std::vector<Support> small;  // those that can be good with some k
  };

  /// Steps for which a set of k tokens was found to be good, and a number that no set exceeds.
  struct GoodSteps {
    std::int64_t found = 0;
    std::int64_t most = 0;
  };

  void add_row(const AttentionRow& row) override {
    if (row.step < first_step_) return;
    Support support;
    for (int j = row.first_visible; j <= row.step; ++j) {
      if (row.attention(j) > tau_) support.push_back(j);
    }
    Supports& head = heads_[row.head];
    for (const int token : support) ++head.steps_of_token[token];
    const auto size = static_cast<std::int64_t>(support.size());
    ++head.steps;
    head.tokens += size;
    head.largest = std::max(head.largest, size);
    if (size > 0 && size <= largest_good(most_)) head.small.push_back(std::move(support));
  }

  /// The size of the largest support that is good with a set of k tokens.
  std::int64_t largest_good(int k) const {
    constexpr double kRounding = 1e-9;  // of a product that is whole
    return k + static_cast<std::int64_t>(std::floor(alpha_ * k + kRounding));
  }

  // A token of S_0 is in the support of every good step, so that the k-th most frequent token
  // limits their number. The set is built greedily: finding the best one is the maximum biclique
  // problem, which is NP-hard. With k = 1 both are exact.
  GoodSteps good_steps(const Supports& head, int k) const {
    std::vector<const Support*> good;
    for (const Support& support : head.small) {
      const auto size = static_cast<std::int64_t>(support.size());
      if (size >= k && size <= largest_good(k)) good.push_back(&support);
    }
    std::vector<std::int64_t> steps = steps_of_tokens(good, unit().num_tokens());
    std::nth_element(steps.begin(), steps.begin() + (k - 1), steps.end(), std::greater<>());
    const std::int64_t most = steps[k - 1];
    std::vector<int> chosen;
    while (static_cast<int>(chosen.size()) < k && !good.empty()) {
      poll_interrupt();
      steps = steps_of_tokens(good, unit().num_tokens());
      for (const int token : chosen) steps[token] = 0;
      const auto next = std::max_element(steps.begin(), steps.end()) - steps.begin();
      chosen.push_back(static_cast<int>(next));
      std::erase_if(good, [&](const Support* support) {
        return !std::binary_search(support->begin(), support->end(), chosen.back());
      });
    }
    return {static_cast<std::int64_t>(good.size()), most};
  }

  std::vector<Value> values_of(const Supports& head, int k) const {
    const auto common =
        std::count(head.steps_of_token.begin(), head.steps_of_token.end(), head.steps);
    const auto in_union = static_cast<std::int64_t>(head.steps_of_token.size()) -
                          std::count(head.steps_of_token.begin(), head.steps_of_token.end(), 0);
    const bool is_good = common >= k && head.largest <= largest_good(k);
    const auto steps = static_cast<double>(head.steps);
    const GoodSteps good = good_steps(head, k);
    const double union_bound = alpha_ * k * steps;
    std::optional<double> least_alpha;
    std::optional<std::int64_t> claim_holds;
    if (common >= k) least_alpha = static_cast<double>(head.largest) / k - 1;
    if (is_good) claim_holds = static_cast<double>(in_union - k) <= union_bound;
    return {alpha_,
            tau_,
            std::int64_t{first_step_},
            std::int64_t{k},
            head.steps,
            static_cast<double>(head.tokens) / steps,
            head.largest,
            std::int64_t{common},
            value_of(least_alpha),
            std::int64_t{is_good},
            static_cast<double>(good.found) / steps,
            static_cast<double>(good.most) / steps,
            in_union,
            union_bound,
            value_of(claim_holds)};
  }

  double alpha_;
  double tau_;
  int most_;
  int first_step_;
  std::vector<Supports> heads_;
};

}  // namespace

AnalysisInfo good_distribution_analysis() {
  return {
      .name = "good-distribution",
      .shows = "per query head and k: is its attention (alpha, tau, k)-good, and at how many steps",
      .source = "H2O Definition D.33, Claim D.34",
      .notes =
          "the definition asks it of all queries, here it is asked of those of the text, each with "
          "the tokens that it sees; supp_tau, which the paper does not define, is the tokens with "
          "more than tau of the step's attention",
      .params = {Param::real("alpha", 0.5, 0, 1,
                             "tokens outside S_0 that may have more than tau, per token of S_0"),
                 Param::real("tau", 0.01, 0, 1, "attention above which a token is in the support"),
                 Param::amount("start", "0.5",
                               "first step that counts: a step, or a share of the text"),
                 Param::integer("most", 64, 1, 4096,
                                "rows for k = 1, 2, 4, ... up to this and to the length of "
                                "the text")},
      .columns = {real_column("alpha", "0..1").key(), real_column("tau", "0..1").key(),
                  integer_column("start", "first step that counts").key(),
                  integer_column("k", "tokens of S_0").key(),
                  integer_column("steps", "that count, from start on"),
                  real_column("support_mean", "mean number of tokens with more than tau"),
                  integer_column("support_max", "the most of a step"),
                  integer_column("common",
                                 "tokens with more than tau at every step: the largest k for which "
                                 "the first condition of Definition D.33 can hold"),
                  real_column("least_alpha",
                              "least alpha for which both conditions hold: support_max / k - 1; "
                              "NULL if k > common, where none does"),
                  integer_column("is_good", "1 if both conditions hold at every step, else 0"),
                  real_column("good_share",
                              "share of the steps for which both hold with one set of k tokens, "
                              "the one that a greedy search finds; 0..1"),
                  real_column("good_share_bound", "a share that no set of k tokens exceeds; 0..1"),
                  integer_column("support_union", "tokens with more than tau at some step"),
                  real_column("union_bound",
                              "alpha k steps: the most of them outside S_0 by Claim D.34"),
                  integer_column("claim_holds",
                                 "1 if support_union - k <= union_bound, else 0; NULL unless "
                                 "is_good")},
      .summary = {"support_mean", "common", "is_good", "good_share", "good_share_bound"},
      .summary_by = {"k"},
      .make = make_analysis<GoodDistribution>};
}

}  // namespace kvsim
