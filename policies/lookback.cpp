// Look-back: the online form of the oracle `lookahead`. It evicts the token whose absence changes
// the outputs of the last steps least, exactly evaluated: without token j a step's output moves by
// p[j] / (1 - p[j]) (o - v[j]), where p is its softmax over what remains of its tokens and o their
// output. With `window=1`, one query head and `target=now` this is CAOTE (Goel et al., "CAOTE: KV
// Cache Selection for LLMs via Attention Output Error-Based Token Eviction", arXiv 2504.14051).

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "policies/interface/policy_info.h"
#include "policies/parts/erase_slots.h"
#include "policies/parts/lane_sums.h"
#include "policies/parts/output_changes.h"
#include "policies/parts/row_products.h"

namespace kvsim {
namespace {

/// A query head at an earlier step. Lists have a place for each token that it saw and that stays.
struct PastQuery {
  std::vector<double> weights;  // exp(logit - the largest)
  double sink = 0;              // the same of a learned sink, which stays and has no value
  double most = 0;              // no weight is larger
  std::vector<double> given;    // the output of the step, [value_dim]; empty with target=now
  bool is_whole = true;         // none of its tokens has left

  // Over those tokens; follow every token that leaves. Empty until a step evicts.
  double sum = 0;                    // of the weights
  std::vector<double> output;        // [value_dim]
  std::vector<double> error;         // output less what it is compared with, [value_dim]
  std::vector<double> along_output;  // each value times `output`
  std::vector<double> along_error;   // each value times `error`
};

double dot(const std::vector<double>& x, const std::vector<double>& y) {
  return sum_in_lanes(x.size(), [&](std::size_t d) { return x[d] * y[d]; });
}

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
            .remembered = {window_, kMostHeads * kListsOfPast * sizeof(double)}};
  }

  void update(const Step& step, std::span<double> scores) override {
    follow_cache(step);
    std::vector<PastQuery>& arrived = past_.emplace_back();
    for (std::size_t head = 0; head < step.queries.size(); ++head) {
      PastQuery& past = arrived.emplace_back();
      set_weights(head, step, past);
      past.sum = sum_of(past);
      if (given_) past.given = output_of(past);
    }
    if (std::ssize(past_) > window_) past_.pop_front();
    if (step.overflow == 0) return;
    std::fill(scores.begin(), scores.end(), 0);
    for (std::vector<PastQuery>& heads : past_) {
      for (PastQuery& past : heads) {
        if (past.output.empty()) measure(past);
        add_changes(past, scores);
      }
    }
  }

 private:
  void follow_cache(const Step& step) {
    std::vector<std::size_t> left;  // slots of the cache before, ascending
    for (std::size_t slot = 0; slot < tokens_.size(); ++slot) {
      if (tokens_[slot] != step.tokens[slot - left.size()]) left.push_back(slot);
    }
    if (!left.empty()) forget(left);
    tokens_.assign(step.tokens.begin(), step.tokens.end());
    for (std::size_t slot = values_.size(); slot < step.tokens.size(); ++slot) {
      const std::span<const float> value = step.values[slot];
      values_.emplace_back(value.begin(), value.end());
      rows_.push_back(values_.back().data());
      const std::vector<double> wide(value.begin(), value.end());
      squares_.push_back(dot(wide, wide));
    }
  }

  void forget(const std::vector<std::size_t>& left) {
    // Where a whole prompt is cut, it takes less to compute the outputs of what stays.
    if (left.size() > past_.size()) forget_outputs();
    for (const std::size_t slot : left) take_out(slot);
    for (std::vector<PastQuery>& heads : past_) {
      for (PastQuery& past : heads) {
        past.is_whole = false;
        for (auto* list : {&past.weights, &past.along_output, &past.along_error}) {
          erase_slots(left, *list);
        }
      }
    }
    erase_slots(left, values_);
    erase_slots(left, rows_);
    erase_slots(left, squares_);
  }

  void forget_outputs() {
    for (std::vector<PastQuery>& heads : past_) {
      for (PastQuery& past : heads) past.output.clear();
    }
  }

  /// Takes the token of a slot out of the outputs: each moves by p / (1 - p) (o - v).
  void take_out(std::size_t slot) {
    const std::vector<double> value(values_[slot].begin(), values_[slot].end());
    std::vector<double> products;  // of the value with all others, the same for every query
    for (std::vector<PastQuery>& heads : past_) {
      for (PastQuery& past : heads) {
        if (past.output.empty() || slot >= past.weights.size()) continue;
        const double weight = past.weights[slot];
        if (weight > past.sum / 2) {  // rounding would be much of what is left
          past.output.clear();
          continue;
        }
        if (products.empty()) products = products_with(value, rows_.size());
        past.sum -= weight;
        const double ratio = weight / std::max(past.sum, kLeastWeight);
        follow_removal(ratio, products.data(), past.along_output,
                       given_ ? past.along_error.data() : nullptr);
        for (std::size_t d = 0; d < value.size(); ++d) {
          const double change = ratio * (past.output[d] - value[d]);
          past.output[d] += change;
          if (given_) past.error[d] += change;
        }
      }
    }
  }

  bool is_visible(int token, int step) const {
    const bool in_window = !window_of_layer_ || step - token < *window_of_layer_;
    return in_window && (!chunk_ || token / *chunk_ == step / *chunk_);
  }

  void set_weights(std::size_t head, const Step& step, PastQuery& past) const {
    constexpr double kNone = -std::numeric_limits<double>::infinity();
    const std::vector<double> query(step.queries[head].begin(), step.queries[head].end());
    std::vector<const float*> keys;
    for (std::size_t i = 0; i < step.tokens.size(); ++i) keys.push_back(step.keys[i].data());
    std::vector<double>& weights = past.weights;
    weights.resize(keys.size());
    row_products(keys, query, weights.data());
    for (std::size_t i = 0; i < step.tokens.size(); ++i) {
      const bool is_selected =
          step.selected.empty() || std::ranges::binary_search(step.selected, step.tokens[i]);
      if (!is_selected || !is_visible(step.tokens[i], step.index)) {
        weights[i] = kNone;
        continue;
      }
      const double logit = scale_ * weights[i];
      weights[i] = softcap_ ? *softcap_ * std::tanh(logit / *softcap_) : logit;
    }
    const double sink = sinks_.empty() ? kNone : double{sinks_[head]};
    const double most = std::max(sink, *std::max_element(weights.begin(), weights.end()));
    // Without a sink a step that selects nothing of the cache has no weights.
    for (double& weight : weights) weight = std::isinf(most) ? 0 : std::exp(weight - most);
    past.sink = std::isinf(most) ? 0 : std::exp(sink - most);
    past.most = 1;
  }

  static double sum_of(const PastQuery& past) {
    return std::accumulate(past.weights.begin(), past.weights.end(), past.sink);
  }

  /// The products of a vector with the values of the first `count` slots.
  std::vector<double> products_with(const std::vector<double>& vector, std::size_t count) const {
    std::vector<double> products(count);
    row_products({rows_.data(), count}, vector, products.data());
    return products;
  }

  /// The query's output over what is left of its tokens, whose weights have its `sum`, [value_dim].
  std::vector<double> output_of(const PastQuery& past) const {
    std::vector<double> output(values_.front().size());
    weighted_row_sums({rows_.data(), past.weights.size()}, past.weights.data(), output);
    const double sum = std::max(past.sum, kLeastWeight);
    for (double& x : output) x /= sum;
    return output;
  }

  void measure(PastQuery& past) const {
    past.sum = sum_of(past);
    const bool is_as_given = given_ && past.is_whole;
    past.output = is_as_given ? past.given : output_of(past);
    past.error.assign(past.output.size(), 0);
    past.along_output = products_with(past.output, past.weights.size());
    if (!given_ || past.is_whole) {
      past.along_error.assign(past.weights.size(), 0);
      return;
    }
    for (std::size_t d = 0; d < past.error.size(); ++d) {
      past.error[d] = past.output[d] - past.given[d];
    }
    past.along_error = products_with(past.error, past.weights.size());
  }

  /// The slot of the token with more than half of the weight, or the number of slots.
  static std::size_t slot_of_most(PastQuery& past) {
    const std::vector<double>& weights = past.weights;
    if (past.most <= past.sum / 2) return weights.size();
    past.most = *std::max_element(weights.begin(), weights.end());
    const auto most = std::find_if(weights.begin(), weights.end(),
                                   [&](double weight) { return weight > past.sum / 2; });
    return static_cast<std::size_t>(most - weights.begin());
  }

  /// Adds to each token's score by how much the squared error of the query's output o would change
  /// without its value v: with the error e that it has already, |e - r (v - o)|^2 - |e|^2.
  void add_changes(PastQuery& past, std::span<double> scores) const {
    const QueryOutput query{.weight_sum = past.sum,
                            .output_square = dot(past.output, past.output),
                            .error_along_output = dot(past.error, past.output)};
    const std::span<const double> weights = past.weights;
    const auto add_several = [&](std::size_t first, std::size_t last) {
      add_output_changes(query, weights.subspan(first, last - first), squares_.data() + first,
                         past.along_output.data() + first, past.along_error.data() + first,
                         scores.data() + first);
    };
    const std::size_t slot = slot_of_most(past);
    add_several(0, slot);
    if (slot == weights.size()) return;
    // The output is next to the value of the token with most of the weight: products would cancel.
    double square = 0;
    double along_error = 0;
    for (std::size_t d = 0; d < past.output.size(); ++d) {
      const double difference = values_[slot][d] - past.output[d];
      square += difference * difference;
      along_error += past.error[d] * difference;
    }
    const double ratio = weights[slot] / std::max(past.sum - weights[slot], kLeastWeight);
    scores[slot] += ratio * (ratio * square - 2 * along_error);
    add_several(slot + 1, weights.size());
  }

  static constexpr std::size_t kMostHeads = 8;    // query heads of a KV head, for the estimate
  static constexpr std::size_t kListsOfPast = 3;  // of a PastQuery, per token

  int window_;
  bool given_;
  double scale_;
  std::optional<double> softcap_;
  std::optional<int> window_of_layer_;
  std::optional<int> chunk_;
  std::vector<float> sinks_;                 // of each query head, or empty
  std::vector<std::int32_t> tokens_;         // of the cache
  std::vector<std::vector<float>> values_;   // of its tokens: those of an evicted one are needed
  std::vector<const float*> rows_;           // where these are
  std::vector<double> squares_;              // of the values
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
          "cache times value_dim, and window times cache, for each query head. It was found on a "
          "toy "
          "model; on SmolLM2-135M it loses more than h2o (policies/new_policies.md)",
      .params = {Param::integer("window", 16, 1, 100'000, "last steps whose outputs count"),
                 Param::choice(
                     "target", {"given", "now"},
                     "what outputs are compared with: those that the steps gave, or those "
                     "that the cache would give them now")},
      .scoring_cost =
          [](const Params& params, const UnitSizes& unit, std::int64_t held) {
            const std::int64_t window = params.integer("window");
            return unit.attended(held) * unit.group * (100 + 6 * window + unit.dims());
          },
      .make = make_policy<LookBack>};
}

}  // namespace kvsim
