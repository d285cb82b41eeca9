// What Scissorhands Theorem 3.1 assumes of the MLP block and the residual stream (section 3.3,
// Figure 10), and what it concludes: scores of one step carry over to the next.

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <numeric>

#include "analysis/fits/radix_sort.h"
#include "analysis/fits/rank_correlation.h"
#include "analysis/layer_stream.h"
#include "analysis/row_analysis.h"

namespace kvsim {
namespace {

std::optional<double> mean_if_any(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::optional<double> least_if_any(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return *std::min_element(values.begin(), values.end());
}

class ResidualSimilarity final : public RowAnalysis {
 public:
  ResidualSimilarity(const Params&, const Subject& subject)
      : RowAnalysis(subject), heads_(unit().query.size()) {}

  std::vector<AnalysisRow> finish() override {
    std::vector<AnalysisRow> rows;
    for (int head = 0; head < unit().group_size(); ++head) {
      std::vector<Value> values = of_layer();
      const PairsOfSteps& pairs = heads_[head];
      values.push_back(value_of(mean_if_any(pairs.correlations)));
      values.push_back(value_of(share_of(pairs.pivotal_again, pairs.pivotal)));
      values.push_back(value_of(share_of(pairs.pivotal_next, pairs.tokens)));
      rows.push_back({head, std::move(values)});
    }
    return rows;
  }

 private:
  /// The attention of a step.
  struct Scores {
    std::vector<double> attention;        // a[t,j], all j
    std::vector<std::int32_t> ascending;  // the tokens that t sees, by it
  };

  /// What pairs of neighbouring steps t and t + 1 of one head have given, of tokens before t that
  /// both see.
  struct PairsOfSteps {
    Scores before;                     // of t
    std::vector<std::int32_t> seen;    // by t
    std::vector<double> correlations;  // of a[t,.] and a[t+1,.]
    std::int64_t tokens = 0;
    std::int64_t pivotal = 0;        // at t
    std::int64_t pivotal_next = 0;   // at t + 1
    std::int64_t pivotal_again = 0;  // at both
  };

  void add_row(const AttentionRow& row) override {
    PairsOfSteps& pairs = heads_[row.head];
    Scores now = scores_of(row);
    if (row.step > 0) add_pair(row, now, pairs);
    pairs.before = std::move(now);
    pairs.seen = row.visible;
  }

  static Scores scores_of(const AttentionRow& row) {
    const std::span<const float> weight = row.weight();
    Scores scores;
    for (const float x : weight) scores.attention.push_back(x / row.weight_sum());
    // Weights are not negative: as integers they have the same order.
    std::vector<std::uint64_t> keys;
    for (const std::int32_t j : row.visible) {
      keys.push_back(std::uint64_t{std::bit_cast<std::uint32_t>(weight[j])} << 32 |
                     static_cast<std::uint32_t>(j));
    }
    radix_sort(keys, 32);
    for (const std::uint64_t key : keys) {
      scores.ascending.push_back(static_cast<std::int32_t>(key & 0xffffffff));
    }
    return scores;
  }

  /// The tokens before step t that it and the next one see.
  static std::vector<std::int32_t> seen_by_both(const std::vector<std::int32_t>& seen,
                                                const std::vector<std::int32_t>& by_next, int t) {
    std::vector<std::int32_t> both;
    if (seen.size() <= by_next.size() && std::equal(seen.begin(), seen.end(), by_next.begin())) {
      both = seen;
    } else {
      std::ranges::set_intersection(seen, by_next, std::back_inserter(both));
    }
    if (!both.empty() && both.back() == t) both.pop_back();
    return both;
  }

  /// The ranks of some tokens' scores among them; `place` has each token's place in the result, or
  /// -1.
  static std::vector<double> ranks_of(const Scores& scores, const std::vector<std::int32_t>& place,
                                      std::size_t count) {
    std::vector<double> ranks(count);
    std::vector<std::int32_t> equal;  // places of tokens with the same score
    double score = 0;
    std::size_t lower = 0;
    const auto rank_equal = [&] {
      const double shared = static_cast<double>(2 * lower + equal.size() + 1) / 2;
      for (const std::int32_t at : equal) ranks[at] = shared;
      lower += equal.size();
      equal.clear();
    };
    for (const std::int32_t token : scores.ascending) {
      if (place[token] < 0) continue;
      if (scores.attention[token] != score) rank_equal();
      score = scores.attention[token];
      equal.push_back(place[token]);
    }
    rank_equal();
    return ranks;
  }

  static void add_pair(const AttentionRow& row, const Scores& next, PairsOfSteps& pairs) {
    const int last = row.step - 1;  // t; row.step is t + 1
    const std::vector<std::int32_t> both = seen_by_both(pairs.seen, row.visible, last);
    if (both.empty()) return;
    std::vector<std::int32_t> place(row.step + 1, -1);
    for (std::size_t i = 0; i < both.size(); ++i) place[both[i]] = static_cast<std::int32_t>(i);
    if (const auto correlation = correlation_of_ranks(ranks_of(pairs.before, place, both.size()),
                                                      ranks_of(next, place, both.size()))) {
      pairs.correlations.push_back(*correlation);
    }
    for (const std::int32_t j : both) {
      const bool is_pivotal = pairs.before.attention[j] > 1.0 / (last + 1);
      const bool is_next = next.attention[j] > 1.0 / (last + 2);
      ++pairs.tokens;
      pairs.pivotal += is_pivotal;
      pairs.pivotal_next += is_next;
      pairs.pivotal_again += is_pivotal && is_next;
    }
  }

  std::vector<Value> of_layer() const {
    const LayerStream* const stream = subject().stream;
    if (stream == nullptr) return std::vector<Value>(10, std::monostate());
    std::optional<double> delta;
    std::optional<double> epsilon;
    if (const auto least = least_if_any(stream->cosine)) {
      delta = 1 - *least;
      epsilon = std::sqrt(*delta);
    }
    return {value_of(mean_if_any(stream->cosine)),
            value_of(least_if_any(stream->cosine)),
            value_of(mean_if_any(stream->input)),
            value_of(mean_if_any(stream->added)),
            value_of(mean_if_any(stream->residual)),
            value_of(mean_if_any(stream->attention)),
            value_of(mean_if_any(stream->attention_cosine)),
            value_of(mean_if_any(stream->next_cosine)),
            value_of(delta),
            value_of(epsilon)};
  }

  static std::optional<double> share_of(std::int64_t part, std::int64_t whole) {
    if (whole == 0) return std::nullopt;
    return static_cast<double>(part) / static_cast<double>(whole);
  }

  std::vector<PairsOfSteps> heads_;
};

}  // namespace

AnalysisInfo residual_similarity_analysis() {
  return {
      .name = "residual-similarity",
      .shows =
          "per query head: what Theorem 3.1 assumes of the residual stream, and whether scores "
          "carry over to the next step",
      .source = "Scissorhands Theorem 3.1, section 3.3, Figure 10",
      .notes =
          "x is the stream with the layer's attention added, F(x) the next layer's input, so that "
          "the last layer has none; where MLP and attention run side by side, x is not what the "
          "MLP takes, and F(x) - x is still what it adds; a bias of W_O is in no trace and counts "
          "as added by the MLP; the theorem's x A x^T needs W_Q, W_K and W_V, which no trace "
          "holds: its inequality (3) is measured by what it is to show, that a larger score at "
          "step t means a larger one at t + 1; rows of a layer's heads have equal values up to "
          "least_epsilon",
      .columns =
          {real_column("cosine", "mean over tokens of cos(x, F(x)): Figure 10a; NULL: no F(x)"),
           real_column("cosine_least", "the least of them"),
           real_column("input_norm", "mean of |x|: Figure 10b"),
           real_column("mlp_norm", "mean of |F(x) - x|, what the MLP adds: Figure 10b"),
           real_column("residual_norm", "mean length of the layer's input"),
           real_column("attention_norm", "mean length of a, what attention adds to it"),
           real_column("attention_cosine",
                       "mean of cos(a, F(x)): what the theorem assumes to be near 1, as its model "
                       "has no skip around attention"),
           real_column("next_cosine",
                       "mean over steps t of the cosine of F(x_t) and the layer's input at t + 1, "
                       "which (1) takes as the same"),
           real_column("delta", "1 - cosine_least: delta of the theorem for F's input x"),
           real_column("least_epsilon",
                       "sqrt(delta): as c <= x A x^T <= lambda_Q lambda_K lambda_V lambda_O, no "
                       "smaller epsilon meets the theorem's assumption; (3) tells scores apart "
                       "that differ by more than 6 epsilon"),
           real_column("score_correlation",
                       "mean over steps t of Spearman's rank correlation of a[t,j] and a[t+1,j] "
                       "over tokens j < t; NULL: no step with two tokens"),
           real_column("pivotal_again",
                       "share of the tokens with a[t,j] > 1/(t+1) that have a[t+1,j] > 1/(t+2); "
                       "0..1, NULL without one"),
           real_column("pivotal_share", "share of all tokens j < t that have it at t + 1; 0..1")},
      .summary = {"cosine", "cosine_least", "input_norm", "mlp_norm", "attention_norm",
                  "attention_cosine", "next_cosine", "least_epsilon", "score_correlation",
                  "pivotal_again", "pivotal_share"},
      .needs = {Dataset::residual, Dataset::output_projection},
      .needs_stream = true,
      .make = make_analysis<ResidualSimilarity>};
}

}  // namespace kvsim
