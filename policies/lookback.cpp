// Look-back: the online form of the oracle `lookahead`. It evicts the token whose absence changes
// the outputs of the last steps least, exactly evaluated: without token j a step's output moves by
// p[j] / (1 - p[j]) (o - v[j]), where p is its softmax over what remains of its tokens and o their
// output. With `window=1`, one query head and `target=now` this is CAOTE (Goel et al., "CAOTE: KV
// Cache Selection for LLMs via Attention Output Error-Based Token Eviction", arXiv 2504.14051).

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "policies/interface/policy_info.h"

namespace kvsim {
namespace {

/// A query head at an earlier step.
struct PastQuery {
  std::vector<double>
      weights;                 // exp(logit - the largest) of the tokens it saw that are still there
  double sink = 0;             // the same of a learned sink, which stays and has no value
  std::vector<double> output;  // what the step gave, [value_dim]
};

class LookBack final : public Policy {
 public:
  LookBack(const Params& params, const Context& context)
      : window_(params.integer("window")),
        given_(params.choice("target") == "given"),
        scale_(context.scale),
        softcap_(context.logit_softcap),
        window_of_layer_(context.sliding_window),
        chunk_(context.attention_chunk),
        sinks_(context.sink_logit) {}

  // The newest token has been seen by one step alone.
  Rules rules() const override {
    return {.protect_newest = 1,
            .sees_values = true,
            .sees_queries = true,
            .remembered = {window_, kMostHeads * sizeof(double)}};
  }

  void update(const Step& step, std::span<double> scores) override {
    forget_evicted(step);
    std::vector<PastQuery>& arrived = past_.emplace_back();
    for (std::size_t head = 0; head < step.queries.size(); ++head) {
      PastQuery& past = arrived.emplace_back();
      set_weights(head, step, past);
      past.output = output_of(past, step);
    }
    if (std::ssize(past_) > window_) past_.pop_front();
    if (step.overflow == 0) return;
    std::fill(scores.begin(), scores.end(), 0);
    for (const std::vector<PastQuery>& heads : past_) {
      for (const PastQuery& past : heads) add_changes(past, step, scores);
    }
  }

 private:
  void forget_evicted(const Step& step) {
    std::vector<std::size_t> stayed;  // slots of the cache before
    for (std::size_t slot = 0; slot < tokens_.size(); ++slot) {
      if (tokens_[slot] == step.tokens[stayed.size()]) stayed.push_back(slot);
    }
    tokens_.assign(step.tokens.begin(), step.tokens.end());
    for (std::vector<PastQuery>& heads : past_) {
      for (PastQuery& past : heads) {
        std::size_t count = 0;
        for (const std::size_t slot : stayed) {
          if (slot < past.weights.size()) past.weights[count++] = past.weights[slot];
        }
        past.weights.resize(count);
      }
    }
  }

  bool is_visible(int token, int step) const {
    const bool in_window = !window_of_layer_ || step - token < *window_of_layer_;
    return in_window && (!chunk_ || token / *chunk_ == step / *chunk_);
  }

  void set_weights(std::size_t head, const Step& step, PastQuery& past) const {
    constexpr double kNone = -std::numeric_limits<double>::infinity();
    const std::span<const float> query = step.queries[head];
    std::vector<double>& weights = past.weights;
    for (std::size_t i = 0; i < step.tokens.size(); ++i) {
      if (!is_visible(step.tokens[i], step.index)) {
        weights.push_back(kNone);
        continue;
      }
      const std::span<const float> key = step.keys[i];
      const double logit =
          scale_ * std::inner_product(query.begin(), query.end(), key.begin(), 0.0);
      weights.push_back(softcap_ ? *softcap_ * std::tanh(logit / *softcap_) : logit);
    }
    const double sink = sinks_.empty() ? kNone : double{sinks_[head]};
    const double most = std::max(sink, *std::max_element(weights.begin(), weights.end()));
    for (double& weight : weights) weight = std::exp(weight - most);
    past.sink = std::exp(sink - most);
  }

  static double sum_of(const PastQuery& past) {
    return std::accumulate(past.weights.begin(), past.weights.end(), past.sink);
  }

  /// The query's output over what is left of its tokens, [value_dim].
  static std::vector<double> output_of(const PastQuery& past, const Step& step) {
    std::vector<double> output(step.values.dim(), 0);
    for (std::size_t i = 0; i < past.weights.size(); ++i) {
      const std::span<const float> value = step.values[i];
      for (std::size_t d = 0; d < output.size(); ++d) output[d] += past.weights[i] * value[d];
    }
    const double sum = std::max(sum_of(past), kLeast);
    for (double& x : output) x /= sum;
    return output;
  }

  /// Adds to each token's score by how much the squared error of the query's output would change
  /// without it: with the error e that it has already, |e - r (v - o)|^2 - |e|^2.
  void add_changes(const PastQuery& past, const Step& step, std::span<double> scores) const {
    const std::vector<double> output = output_of(past, step);
    const double sum = sum_of(past);
    std::vector<double> error(output.size(), 0);
    if (given_) {
      for (std::size_t d = 0; d < output.size(); ++d) error[d] = output[d] - past.output[d];
    }
    const std::size_t count = past.weights.size();
    for (std::size_t first = 0; first < count; first += kTokensAtOnce) {
      // The last group repeats its last token, whose sums are then not used.
      std::array<const float*, kTokensAtOnce> values;
      for (std::size_t k = 0; k < kTokensAtOnce; ++k) {
        values[k] = step.values[std::min(first + k, count - 1)].data();
      }
      std::array<double, kTokensAtOnce> square = {};
      std::array<double, kTokensAtOnce> along_error = {};
      for (std::size_t d = 0; d < output.size(); ++d) {
        for (std::size_t k = 0; k < kTokensAtOnce; ++k) {
          const double difference = values[k][d] - output[d];
          square[k] += difference * difference;
          along_error[k] += error[d] * difference;
        }
      }
      for (std::size_t i = first; i < std::min(first + kTokensAtOnce, count); ++i) {
        const double ratio = past.weights[i] / std::max(sum - past.weights[i], kLeast);
        scores[i] += ratio * (ratio * square[i - first] - 2 * along_error[i - first]);
      }
    }
  }

  static constexpr std::size_t kMostHeads = 8;  // query heads of a KV head, for the estimate
  // Each token's sums keep their order; those of several tokens do not wait for one another.
  static constexpr std::size_t kTokensAtOnce = 8;
  // Keeps ratios finite: of a query's only token, and where all weights have vanished.
  static constexpr double kLeast = 1e-30;

  int window_;
  bool given_;
  double scale_;
  std::optional<double> softcap_;
  std::optional<int> window_of_layer_;
  std::optional<int> chunk_;
  std::vector<float> sinks_;                 // of each query head, or empty
  std::vector<std::int32_t> tokens_;         // of the cache
  std::deque<std::vector<PastQuery>> past_;  // of the last steps, one per query head
};

}  // namespace

PolicyInfo lookback_policy() {
  return {
      .name = "lookback",
      .keeps = "the tokens without which the outputs of the last steps would change most",
      .source = "policies/new_policies.md; with window=1,target=now CAOTE (arXiv 2504.14051)",
      .sees = "queries, keys, values",
      .differences =
          "CAOTE also has forms that weigh by the scores of another policy. The work of a step is "
          "window times cache times value_dim for each query head",
      .params = {Param::integer("window", 16, 1, 100'000, "last steps whose outputs count"),
                 Param::choice(
                     "target", {"given", "now"},
                     "what outputs are compared with: those that the steps gave, or those "
                     "that the cache would give them now")},
      .scoring_cost =
          [](const Params& params, const UnitSizes& unit, std::int64_t held) {
            const std::int64_t window = params.integer("window");
            return unit.attended(held) * unit.group * (100 + window * (6 + unit.dims() / 2));
          },
      .make = make_policy<LookBack>};
}

}  // namespace kvsim
