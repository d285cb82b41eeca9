// Expected attention (Devoto, Jeblick and Jegou, "Expected Attention: KV Cache Compression by
// Estimating Attention from Future Queries Distribution", arXiv 2510.00636, 2025): takes queries
// before rotation to be normally distributed, with the mean and the covariance of the prompt's.
// The mean of exp(logit) over queries to come is then known in closed form. A token counts by it,
// as a share of the sum over all tokens, times the length of its value.

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "policies/interface/policy_info.h"
#include "policies/parts/mean_rotation.h"
#include "policies/parts/vector_statistics.h"

namespace kvsim {
namespace {

class ExpectedAttention final : public Policy {
 public:
  ExpectedAttention(const Params& params, const Context& context)
      : future_(params.integer("future")),
        sinks_(params.integer("sinks")),
        covariance_(params.choice("covariance") == "yes"),
        values_(params.choice("values") == "yes"),
        epsilon_(params.real("epsilon")),
        scale_(double{context.scale}),
        rotation_(context.rotation) {}

  Rules rules() const override {
    return {.protect_first = sinks_,
            .sees_values = values_,
            .sees_queries = true,
            .sees_rotation = true,
            .prompt_only = true,
            .remembered = {.covariances = covariance_ ? 1 : 0}};
  }

  void update(const Step& step, std::span<double> scores) override {
    if (is_cut_ || step.index < sinks_) return;
    add_queries(step);
    if (step.overflow == 0) return;
    score(step, scores);
    is_cut_ = true;
  }

 private:
  MeanRotation rotation(int first, int count) const {
    return {rotation_->inverse_frequency, rotation_->interleaved, first, count};
  }

  void add_queries(const Step& step) {
    const MeanRotation back = rotation(-step.index, 1);
    queries_.resize(step.queries.size(), {step.keys.dim(), covariance_});
    for (std::size_t head = 0; head < step.queries.size(); ++head) {
      unrotated_.assign(step.queries[head].begin(), step.queries[head].end());
      back.apply(unrotated_);
      queries_[head].add(unrotated_);
    }
  }

  // Queries to come are rotated on average, which is the same as rotating keys by the transposed
  // map.
  void score(const Step& step, std::span<double> scores) {
    const MeanRotation ahead = rotation(step.index + 1, future_);
    const auto first = static_cast<std::size_t>(
        std::lower_bound(step.tokens.begin(), step.tokens.end(), sinks_) - step.tokens.begin());
    const std::size_t count = scores.size() - first;
    std::vector<std::vector<double>> logits(queries_.size(), std::vector<double>(count));
    for (std::size_t i = 0; i < count; ++i) {
      const std::span<const float> recorded = step.keys[first + i];
      std::vector<double> key(recorded.begin(), recorded.end());
      ahead.apply_transposed(key);
      for (std::size_t head = 0; head < queries_.size(); ++head) {
        logits[head][i] = expected_logit(queries_[head], key);
      }
    }
    std::fill(scores.begin(), scores.end(), 0);
    for (std::vector<double>& head : logits) add_softmax(head, scores.subspan(first));
    if (!values_) return;
    for (std::size_t i = first; i < scores.size(); ++i) {
      scores[i] = (scores[i] + epsilon_) * length(step.values[i]);
    }
  }

  // The logarithm of the mean of exp(logit), which is log-normally distributed.
  double expected_logit(VectorStatistics& queries, std::span<const double> key) const {
    const double mean = scale_ * queries.mean_along(key);
    return covariance_ ? mean + 0.5 * scale_ * scale_ * queries.variance_along(key) : mean;
  }

  // Adds each head's share of the mean over the heads.
  void add_softmax(std::vector<double>& logits, std::span<double> scores) const {
    const double most = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (double& logit : logits) {
      logit = std::exp(logit - most);
      sum += logit;
    }
    const double share = 1 / (sum * static_cast<double>(queries_.size()));
    for (std::size_t i = 0; i < scores.size(); ++i) scores[i] += share * logits[i];
  }

  static double length(std::span<const float> value) {
    double sum = 0;
    for (const float x : value) sum += double{x} * double{x};
    return std::sqrt(sum);
  }

  int future_;
  int sinks_;
  bool covariance_;
  bool values_;
  double epsilon_;
  double scale_;
  std::optional<Rotation> rotation_;
  bool is_cut_ = false;
  std::vector<VectorStatistics> queries_;  // before rotation, of each query head
  std::vector<double> unrotated_;
};

}  // namespace

PolicyInfo expected_attention_policy() {
  return {
      .name = "expected-attention",
      .keeps = "the first tokens and those to which queries like the prompt's will attend most",
      .source = "Devoto et al. 2025 (arXiv 2510.00636); ExpectedAttentionPress of kvpress",
      .sees = "queries, keys, how they were rotated, values; values=no: not these",
      .differences =
          "needs --mode prefill --eviction-interval never. Logits have the scale of the trace; the "
          "program divides by the root of the head dimension, and rotates all dimensions by halves "
          "where the trace may say otherwise",
      .params = {Param::integer("future", 512, 1, 1'000'000,
                                "positions after the prompt over which rotation is averaged"),
                 Param::integer("sinks", 4, 0, 1'000'000,
                                "first tokens, which stay and whose queries do not count"),
                 Param::choice("covariance", {"yes", "no"},
                               "how much queries vary, or their mean alone"),
                 Param::choice("values", {"yes", "no"},
                               "whether expected attention is multiplied by the L2 norm of the "
                               "value"),
                 Param::real("epsilon", 0, 0, 1,
                             "added to expected attention before that; the more, the more the norm "
                             "decides")},
      .presets =
          {{"kvpress", "",
            "defaults of ExpectedAttentionPress of kvpress 0.5.5; n_kept is the budget: 100% "
            "of its sets"}},
      .make = make_policy<ExpectedAttention>};
}

}  // namespace kvsim
