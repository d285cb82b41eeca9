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
#include "policies/parts/lane_sums.h"

namespace kvsim {
namespace {

/// A query head at an earlier step. Lists have a place for each token that it saw and that stays.
struct PastQuery {
  std::vector<double> weights;  // exp(logit - the largest)
  double sink = 0;              // the same of a learned sink, which stays and has no value
  std::vector<double> given;    // the output of the step, [value_dim]; empty with target=now

  // Over those tokens; follow every token that leaves. Empty until a step evicts.
  double sum = 0;                    // of the weights
  std::vector<double> output;        // [value_dim]
  std::vector<double> error;         // output less what it is compared with, [value_dim]
  std::vector<double> along_output;  // each value times `output`
  std::vector<double> along_error;   // each value times `error`
};

template <class List>
double dot(const List& x, const List& y) {
  return sum_in_lanes(x.size(), [&](std::size_t d) { return double{x[d]} * double{y[d]}; });
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
    std::vector<std::size_t> stayed;  // slots of the cache before
    std::vector<std::size_t> left;
    for (std::size_t slot = 0; slot < tokens_.size(); ++slot) {
      (tokens_[slot] == step.tokens[stayed.size()] ? stayed : left).push_back(slot);
    }
    if (!left.empty()) forget(left, stayed);
    tokens_.assign(step.tokens.begin(), step.tokens.end());
    for (std::size_t slot = values_.size(); slot < step.tokens.size(); ++slot) {
      const std::span<const float> value = step.values[slot];
      values_.emplace_back(value.begin(), value.end());
      squares_.push_back(dot(values_.back(), values_.back()));
    }
  }

  void forget(const std::vector<std::size_t>& left, const std::vector<std::size_t>& stayed) {
    // Where a whole prompt is cut, it takes less to compute the outputs of what stays.
    if (left.size() > past_.size()) forget_outputs();
    for (const std::size_t slot : left) take_out(slot);
    for (std::vector<PastQuery>& heads : past_) {
      for (PastQuery& past : heads) {
        for (auto* list : {&past.weights, &past.along_output, &past.along_error}) {
          keep(stayed, *list);
        }
      }
    }
    keep(stayed, values_);
    keep(stayed, squares_);
  }

  template <class T>
  static void keep(const std::vector<std::size_t>& slots, std::vector<T>& list) {
    std::size_t count = 0;
    for (const std::size_t slot : slots) {
      if (slot >= list.size()) break;
      if (slot != count) list[count] = std::move(list[slot]);
      ++count;
    }
    list.resize(count);
  }

  void forget_outputs() {
    for (std::vector<PastQuery>& heads : past_) {
      for (PastQuery& past : heads) past.output.clear();
    }
  }

  /// Takes the token of a slot out of the outputs: each moves by p / (1 - p) (o - v).
  void take_out(std::size_t slot) {
    const std::vector<double>& value = values_[slot];
    std::vector<double> products;  // of the value with all others, the same for every query
    for (std::vector<PastQuery>& heads : past_) {
      for (PastQuery& past : heads) {
        if (past.output.empty() || slot >= past.weights.size()) continue;
        const double weight = past.weights[slot];
        if (weight > past.sum / 2) {  // rounding would be much of what is left
          past.output.clear();
          continue;
        }
        if (products.empty()) products = products_with(value, values_.size());
        past.sum -= weight;
        const double ratio = weight / std::max(past.sum, kLeast);
        for (std::size_t i = 0; i < past.weights.size(); ++i) {
          const double change = ratio * (past.along_output[i] - products[i]);
          past.along_output[i] += change;
          if (given_) past.along_error[i] += change;
        }
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
    const std::span<const float> query = step.queries[head];
    std::vector<double>& weights = past.weights;
    for (std::size_t i = 0; i < step.tokens.size(); ++i) {
      const bool is_selected =
          step.selected.empty() || std::ranges::binary_search(step.selected, step.tokens[i]);
      if (!is_selected || !is_visible(step.tokens[i], step.index)) {
        weights.push_back(kNone);
        continue;
      }
      const double logit = scale_ * dot(query, step.keys[i]);
      weights.push_back(softcap_ ? *softcap_ * std::tanh(logit / *softcap_) : logit);
    }
    const double sink = sinks_.empty() ? kNone : double{sinks_[head]};
    const double most = std::max(sink, *std::max_element(weights.begin(), weights.end()));
    // Without a sink a step that selects nothing of the cache has no weights.
    for (double& weight : weights) weight = std::isinf(most) ? 0 : std::exp(weight - most);
    past.sink = std::isinf(most) ? 0 : std::exp(sink - most);
  }

  static double sum_of(const PastQuery& past) {
    return std::accumulate(past.weights.begin(), past.weights.end(), past.sink);
  }

  /// The products of a vector with the values of the first `count` slots.
  std::vector<double> products_with(const std::vector<double>& vector, std::size_t count) const {
    std::vector<double> products;
    for (std::size_t slot = 0; slot < count; ++slot) products.push_back(dot(values_[slot], vector));
    return products;
  }

  /// The query's output over what is left of its tokens, [value_dim].
  std::vector<double> output_of(const PastQuery& past) const {
    std::vector<double> output(values_.front().size(), 0);
    for (std::size_t i = 0; i < past.weights.size(); ++i) {
      for (std::size_t d = 0; d < output.size(); ++d) output[d] += past.weights[i] * values_[i][d];
    }
    const double sum = std::max(sum_of(past), kLeast);
    for (double& x : output) x /= sum;
    return output;
  }

  void measure(PastQuery& past) const {
    past.sum = sum_of(past);
    past.output = output_of(past);
    past.error.assign(past.output.size(), 0);
    if (given_) {
      for (std::size_t d = 0; d < past.error.size(); ++d) {
        past.error[d] = past.output[d] - past.given[d];
      }
    }
    past.along_output = products_with(past.output, past.weights.size());
    past.along_error = products_with(past.error, past.weights.size());
  }

  /// Adds to each token's score by how much the squared error of the query's output o would change
  /// without its value v: with the error e that it has already, |e - r (v - o)|^2 - |e|^2.
  void add_changes(const PastQuery& past, std::span<double> scores) const {
    const double output_square = dot(past.output, past.output);
    const double error_along_output = dot(past.error, past.output);
    const auto add = [&](std::size_t i, double square, double along_error) {
      const double ratio = past.weights[i] / std::max(past.sum - past.weights[i], kLeast);
      scores[i] += ratio * (ratio * square - 2 * along_error);
    };
    const auto add_several = [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        const double square = squares_[i] - 2 * past.along_output[i] + output_square;
        add(i, std::max(square, 0.0), past.along_error[i] - error_along_output);
      }
    };
    const std::vector<double>& weights = past.weights;
    const auto most = std::find_if(weights.begin(), weights.end(),
                                   [&](double weight) { return weight > past.sum / 2; });
    const auto slot = static_cast<std::size_t>(most - weights.begin());
    add_several(0, slot);
    if (most == weights.end()) return;
    // The output is next to the value of the token with most of the weight: products would cancel.
    double square = 0;
    double along_error = 0;
    for (std::size_t d = 0; d < past.output.size(); ++d) {
      const double difference = values_[slot][d] - past.output[d];
      square += difference * difference;
      along_error += past.error[d] * difference;
    }
    add(slot, square, along_error);
    add_several(slot + 1, weights.size());
  }

  static constexpr std::size_t kMostHeads = 8;    // query heads of a KV head, for the estimate
  static constexpr std::size_t kListsOfPast = 3;  // of a PastQuery, per token
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
  std::vector<std::vector<double>> values_;  // of its tokens: those of an evicted one are needed
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
