// CriticalKV (Feng, Lv, Cao, Xie and Zhou, "Identify Critical KV Cache in LLM Inference from an
// Output Perturbation Perspective", 2025, arXiv 2502.03805, Algorithm 1): what a token adds to the
// residual stream is its attention times its value times W_O. Part of the budget stays by the
// scores of a policy, the rest by score times the L1 norm of the projected value.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "policies/interface/score_wrapper.h"
#include "sim/base/errors.h"

namespace kvsim {
namespace {

class Critical final : public ScoreWrapper {
 public:
  Critical(std::unique_ptr<Policy> inner, const Rules& rules, const Params& params,
           const Context& context)
      : ScoreWrapper(std::move(inner), rules, context.budget),
        first_(static_cast<std::size_t>(params.amount("first", context.budget))),
        epsilon_(params.real("epsilon")),
        counts_protected_(params.choice("protected") == "count"),
        unit_(context.unit),
        projection_(context.output_projection) {}

 private:
  void change(const Step& step, std::span<const double> own, std::span<double> scores) override {
    std::copy(own.begin(), own.end(), scores.begin());
    if (step.overflow == 0) return;
    const SlotRange range = candidates(own.size());
    std::vector<std::size_t> slots(range.size());
    std::iota(slots.begin(), slots.end(), range.begin);
    const std::size_t num_first = num_of_first_stage(own.size() - range.size(), range.size());
    // Of equals the earlier one leaves first.
    std::partial_sort(
        slots.begin(), slots.begin() + static_cast<std::ptrdiff_t>(num_first), slots.end(),
        [&](std::size_t a, std::size_t b) { return own[a] != own[b] ? own[a] > own[b] : a > b; });
    double most = 0;
    for (std::size_t i = num_first; i < slots.size(); ++i) {
      double& score = scores[slots[i]];
      if (std::isinf(score)) continue;  // what a policy prunes, or keeps in any case
      score = (score + epsilon_) * projected_length(step, slots[i]);
      most = std::max(most, score);
    }
    if (num_first == 0) return;
    const double least = own[slots[num_first - 1]];
    for (std::size_t i = 0; i < num_first; ++i) {
      double& score = scores[slots[i]];
      if (std::isinf(score)) continue;
      score = 2 * most + 1 + (std::isinf(least) ? 0 : score - least);
    }
  }

  std::size_t num_of_first_stage(std::size_t num_protected, std::size_t num_candidates) const {
    const std::size_t taken = counts_protected_ ? std::min(num_protected, first_) : 0;
    return std::min(first_ - taken, num_candidates);
  }

  /// The mean over the query heads of the L1 norm of the value times W_O.
  double projected_length(const Step& step, std::size_t slot) {
    const auto token = static_cast<std::size_t>(step.tokens[slot]);
    if (lengths_.size() <= token) lengths_.resize(token + 1, kUnknown);
    double& length = lengths_[token];
    if (std::isnan(length)) length = project(step.values[slot]);
    return length;
  }

  double project(std::span<const float> value) {
    if (projection_.empty()) {
      throw DataError((unit_.empty() ? "" : unit_ + ": ") +
                      "expected the output projection W_O that +critical needs, found nothing; "
                      "record it with --also output_projection, or leave +critical out");
    }
    double sum = 0;
    for (const std::span<const float> of_head : projection_) {
      const std::size_t hidden = of_head.size() / value.size();
      projected_.assign(hidden, 0);
      for (std::size_t d = 0; d < value.size(); ++d) {
        const double x = value[d];
        const float* row = of_head.data() + d * hidden;
        for (std::size_t h = 0; h < hidden; ++h) projected_[h] += x * row[h];
      }
      for (const double x : projected_) sum += std::abs(x);
    }
    return sum / static_cast<double>(projection_.size());
  }

  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  std::size_t first_;
  double epsilon_;
  bool counts_protected_;
  std::string unit_;
  std::vector<std::span<const float>> projection_;  // per query head, [value_dim, hidden]
  std::vector<double> lengths_;                     // by text position
  std::vector<double> projected_;
};

std::unique_ptr<Policy> wrap_critical(std::unique_ptr<Policy> policy, const Rules& rules,
                                      const Params& params, const Context& context) {
  return std::make_unique<Critical>(std::move(policy), rules, params, context);
}

void weigh_values(Rules& rules, const Params&, const Context&) {
  leave_rule(rules);
  rules.sees_values = true;
}

std::string why_not_critical(const PolicyInfo& policy, const Rules& rules, const Params&) {
  std::string reason = why_no_scores(policy, rules);
  if (!reason.empty()) return reason;
  if (!rules.bounded) return "it has no budget to be divided";
  if (rules.scope != Scope::head && !rules.joined) {
    return "its KV heads share scores, and each head has other values; +shared joins the scores of "
           "a policy that scores for each head";
  }
  return "";
}

}  // namespace

CombinatorInfo critical_combinator() {
  return {
      .name = "critical",
      .does =
          "part of the budget stays by score, the rest by score times the L1 norm of the "
          "value projected by W_O",
      .source =
          "CriticalKV (Feng et al. 2025, arXiv 2502.03805), Algorithm 1; CriticalKVPress of "
          "kvpress",
      .differences =
          "needs a trace with output_projection. Norms are of each query head, then their mean, as "
          "in kvpress. A share is rounded to the nearest token, the program rounds down. Scores "
          "below 0, as knorm has, are multiplied as in the program: a longer value then leaves "
          "sooner. The program lets the observation window of snapkv compete in its first stage; "
          "here it stays and, with protected=count, takes its places there",
      .params = {Param::amount("first", "0.5", "what stays by the policy's scores alone"),
                 Param::real("epsilon", 1e-4, 0, 1000, "added to scores before the product"),
                 Param::choice("protected", {"count", "apart"},
                               "whether tokens that always stay are part of `first`")},
      .change = weigh_values,
      .why_not = why_not_critical,
      .wrap = wrap_critical,
      .needs = {.output_projection = true}};
}

}  // namespace kvsim
