// TriAttention (Mao et al., "TriAttention: Efficient Long Reasoning with Trigonometric KV
// Compression", 2026, arXiv 2604.04921, and its authors' program): before rotation the queries of a
// head lie near a centre. The logit of the centre with a key is a trigonometric series in their
// distance, which says how much coming steps will attend to the key; where queries scatter around
// the centre, the norm of the key counts instead. Both are sums over the rotated pairs of
// dimensions.

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "policies/interface/policy_info.h"
#include "policies/parts/mean_rotation.h"

namespace kvsim {
namespace {

/// Of each row the sum of vector[d] * row[d], added from the first d on. Several rows at a time,
/// since an addition waits for the one before.
template <class Number>
std::vector<double> ordered_products(std::span<const Number* const> rows,
                                     std::span<const double> vector) {
  constexpr std::size_t kRows = 8;
  std::vector<double> products(rows.size(), 0);
  std::size_t i = 0;
  for (; i + kRows <= rows.size(); i += kRows) {
    double sums[kRows] = {};
    for (std::size_t d = 0; d < vector.size(); ++d) {
      for (std::size_t row = 0; row < kRows; ++row) sums[row] += vector[d] * rows[i + row][d];
    }
    std::copy_n(sums, kRows, products.data() + i);
  }
  for (; i < rows.size(); ++i) {
    for (std::size_t d = 0; d < vector.size(); ++d) products[i] += vector[d] * rows[i][d];
  }
  return products;
}

class TriAttention final : public Policy {
 public:
  TriAttention(const Params& params, const Context& context)
      : reach_(params.integer("reach")),
        takes_mean_(params.choice("offsets") == "mean"),
        joins_by_mean_(params.choice("heads") == "mean"),
        normalizes_(params.choice("normalize") == "yes"),
        counts_whole_norm_(params.choice("norms") == "whole"),
        rotation_(context.rotation) {}

  Rules rules() const override {
    return {.sees_queries = true,
            .sees_rotation = true,
            .remembered = {.steps = 1, .bytes_per_token = kBytesPerToken}};
  }

  void update(const Step& step, std::span<double> scores) override {
    add_queries(step);
    if (step.overflow == 0) return;
    follow_cache(step);
    std::vector<double> joined(scores.size(), joins_by_mean_ ? 0.0 : -kInfinity);
    for (const Centre& centre : centres_) {
      std::vector<double> of_head = scores_of(centre, step);
      if (normalizes_) normalize(of_head);
      for (std::size_t i = 0; i < joined.size(); ++i) {
        joined[i] = joins_by_mean_ ? joined[i] + of_head[i] : std::max(joined[i], of_head[i]);
      }
    }
    const double divisor = joins_by_mean_ ? static_cast<double>(centres_.size()) : 1;
    for (std::size_t i = 0; i < joined.size(); ++i) scores[i] = joined[i] / divisor;
  }

 private:
  /// Sums over the steps so far of a query head's queries before rotation.
  struct Centre {
    std::vector<double> sum;      // [head_dim]
    std::vector<double> lengths;  // of each rotated pair of dimensions
  };

  std::pair<std::size_t, std::size_t> dims_of(std::size_t pair) const {
    if (rotation_->interleaved) return {2 * pair, 2 * pair + 1};
    return {pair, pair + rotation_->inverse_frequency.size()};
  }

  template <class Vector>
  double length_of(const Vector& vector, std::size_t pair) const {
    const auto [a, b] = dims_of(pair);
    return std::hypot(double{vector[a]}, double{vector[b]});
  }

  void add_queries(const Step& step) {
    const std::size_t pairs = rotation_->inverse_frequency.size();
    const MeanRotation back(rotation_->inverse_frequency, rotation_->interleaved, -step.index);
    centres_.resize(step.queries.size());
    for (std::size_t head = 0; head < step.queries.size(); ++head) {
      Centre& centre = centres_[head];
      std::vector<double> query(step.queries[head].begin(), step.queries[head].end());
      back.apply(query);
      centre.sum.resize(query.size(), 0);
      centre.lengths.resize(pairs, 0);
      for (std::size_t d = 0; d < query.size(); ++d) centre.sum[d] += query[d];
      for (std::size_t pair = 0; pair < pairs; ++pair) {
        centre.lengths[pair] += length_of(query, pair);
      }
    }
    ++num_queries_;
  }

  /// A key's lengths take longer than its products, so they are made once, when it arrives.
  void follow_cache(const Step& step) {
    std::size_t kept = 0;
    for (std::size_t slot = 0; slot < tokens_.size(); ++slot) {
      if (kept == step.tokens.size() || tokens_[slot] != step.tokens[kept]) continue;
      if (kept != slot) lengths_[kept] = std::move(lengths_[slot]);
      ++kept;
    }
    lengths_.resize(kept);
    for (std::size_t slot = kept; slot < step.tokens.size(); ++slot) {
      const std::span<const float> key = step.keys[slot];
      std::vector<double>& lengths = lengths_.emplace_back();
      for (std::size_t pair = 0; pair < rotation_->inverse_frequency.size(); ++pair) {
        lengths.push_back(length_of(key, pair));
      }
    }
    tokens_.assign(step.tokens.begin(), step.tokens.end());
  }

  std::vector<double> scores_of(const Centre& centre, const Step& step) const {
    std::vector<double> mean = centre.sum;
    for (double& x : mean) x /= num_queries_;
    std::vector<double> weights;  // of the lengths of a key's pairs
    for (std::size_t pair = 0; pair < centre.lengths.size(); ++pair) {
      const double length = centre.lengths[pair] / num_queries_;
      weights.push_back(counts_whole_norm_ ? length : length - length_of(mean, pair));
    }
    std::vector<const float*> keys;
    std::vector<const double*> lengths;
    for (std::size_t i = 0; i < step.tokens.size(); ++i) {
      keys.push_back(step.keys[i].data());
      lengths.push_back(lengths_[i].data());
    }
    std::vector<double> scores(keys.size(), -kInfinity);
    for (const std::vector<double>& query : rotated(mean, step.index + 1)) {
      const std::vector<double> products = ordered_products<float>(keys, query);
      for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = std::max(scores[i], products[i]);
    }
    const std::vector<double> norms = ordered_products<double>(lengths, weights);
    for (std::size_t i = 0; i < scores.size(); ++i) scores[i] += norms[i];
    return scores;
  }

  /// The centre rotated to the positions 1, 2, 4, ... after the text's end, or the mean of these.
  std::vector<std::vector<double>> rotated(const std::vector<double>& centre, int end) const {
    std::vector<std::vector<double>> vectors;
    for (std::int64_t offset = 1; offset <= reach_; offset *= 2) {
      vectors.push_back(centre);
      MeanRotation(rotation_->inverse_frequency, rotation_->interleaved,
                   static_cast<int>(end + offset))
          .apply(vectors.back());
    }
    if (!takes_mean_) return vectors;
    std::vector<double> mean(centre.size(), 0);
    for (const std::vector<double>& vector : vectors) {
      for (std::size_t d = 0; d < mean.size(); ++d) {
        mean[d] += vector[d] / static_cast<double>(vectors.size());
      }
    }
    return {mean};
  }

  static void normalize(std::vector<double>& scores) {
    const auto count = static_cast<double>(scores.size());
    double mean = 0;
    for (const double score : scores) mean += score / count;
    double variance = 0;
    for (const double score : scores) variance += (score - mean) * (score - mean) / count;
    const double deviation = std::max(std::sqrt(variance), kLeastDeviation);
    for (double& score : scores) score = (score - mean) / deviation;
  }

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr double kLeastDeviation = 1e-6;  // as in the program

  // Lengths of the pairs of 128 dimensions, for the estimate.
  static constexpr std::size_t kBytesPerToken = 64 * sizeof(double) + 64;

  int reach_;
  bool takes_mean_;
  bool joins_by_mean_;
  bool normalizes_;
  bool counts_whole_norm_;
  std::optional<Rotation> rotation_;
  std::vector<Centre> centres_;  // per query head
  double num_queries_ = 0;
  std::vector<std::int32_t> tokens_;          // of the cache when a step last scored
  std::vector<std::vector<double>> lengths_;  // of each rotated pair of their keys
};

}  // namespace

PolicyInfo triattention_policy() {
  return {
      .name = "triattention",
      .keeps = "the tokens to which the centre of the queries will attend most, by distance",
      .source = "TriAttention (Mao et al. 2026, arXiv 2604.04921); the authors' program",
      .sees = "queries, keys, how they were rotated",
      .differences =
          "the program takes the centre and the mean lengths of queries from a calibration text; "
          "here they are of all steps so far, so that nothing of the future is seen. It keeps "
          "prompts whole unless allow_prefill_compression is set, adds noise of 1e-6, and evicts "
          "every 128 steps (--eviction-interval 128). Dimensions that are not rotated count by "
          "their product alone",
      .params = {Param::integer("reach", 65536, 1, 1'000'000'000,
                                "largest offset of the positions 1, 2, 4, ... after the text"),
                 Param::choice("offsets", {"mean", "max"}, "how their scores are joined"),
                 Param::choice("heads", {"max", "mean"},
                               "how the scores of the query heads of a KV head are joined"),
                 Param::choice("normalize", {"yes", "no"},
                               "whether each query head's scores first get mean 0 and deviation 1"),
                 Param::choice("norms", {"spread", "whole"},
                               "what the length of a key is multiplied by: how far the mean length "
                               "of queries exceeds that of their centre, or all of it")},
      .presets = {{"code", "",
                   "defaults of the authors' program with per_layer_perhead_pruning, where a "
                   "prompt is cut, calibrated with its queries; kv_budget is the budget: 100% of "
                   "its sets"}},
      .scoring_cost =
          [](const Params&, const UnitSizes& unit, std::int64_t held) {
            return unit.attended(held) * unit.group * unit.head_dim * 2;
          },
      .make = make_policy<TriAttention>};
}

}  // namespace kvsim
