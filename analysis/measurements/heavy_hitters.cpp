// Heavy hitters (H2O section 3.2, Figures 2b and 10): the positions and the vocabulary entries that
// receive the most attention.

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "analysis/fits/rank_correlation.h"
#include "analysis/row_analysis.h"

namespace kvsim {
namespace {

const char* const kHeavyHittersSource = "H2O section 3.2, Figures 2b and 10";

class AccumulatedAttention : public RowAnalysis {
 public:
  explicit AccumulatedAttention(const Subject& subject)
      : RowAnalysis(subject),
        scores_(unit().query.size(), std::vector<double>(unit().num_tokens(), 0)) {}

 protected:
  /// Per token: the sum of a[t,j] over all steps.
  const std::vector<double>& scores(int head) const { return scores_[head]; }

  /// Positions with the largest score first; the lower one first among equals.
  std::vector<int> ranking(int head) const {
    std::vector<int> order(scores_[head].size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return scores_[head][a] > scores_[head][b]; });
    return order;
  }

 private:
  void add_row(const AttentionRow& row) override {
    for (int j = row.first_visible; j <= row.step; ++j) scores_[row.head][j] += row.attention(j);
  }

  std::vector<std::vector<double>> scores_;
};

class HeavyHitters final : public AccumulatedAttention {
 public:
  HeavyHitters(const Params&, const Subject& subject) : AccumulatedAttention(subject) {}

  std::vector<AnalysisRow> finish() override {
    std::vector<AnalysisRow> rows;
    for (int head = 0; head < unit().group_size(); ++head) {
      double above = 0;
      std::int64_t rank = 0;
      for (const int token : ranking(head)) {
        const double score = scores(head)[token];
        above += score;
        std::optional<std::int64_t> id;
        if (!unit().token_ids.empty()) id = unit().token_ids[token];
        rows.push_back(
            {head,
             {std::int64_t{token}, value_of(id), score, ++rank, above / unit().num_tokens()}});
      }
    }
    return rows;
  }
};

class Concentration final : public AccumulatedAttention {
 public:
  Concentration(const Params&, const Subject& subject) : AccumulatedAttention(subject) {}

  std::vector<AnalysisRow> finish() override {
    std::vector<AnalysisRow> rows;
    for (int head = 0; head < unit().group_size(); ++head) {
      rows.push_back({head,
                      {share_of_best(head, 0.01), share_of_best(head, 0.05),
                       share_of_best(head, 0.1), share_of_best(head, 0.2), gini(head)}});
    }
    return rows;
  }

 private:
  double share_of_best(int head, double share) const {
    const auto n = static_cast<double>(unit().num_tokens());
    const auto count =
        std::max<std::size_t>(1, static_cast<std::size_t>(std::floor(share * n + 0.5)));
    std::vector<double> sorted = scores(head);
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    return std::accumulate(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count),
                           0.0) /
           n;
  }

  double gini(int head) const {
    std::vector<double> sorted = scores(head);
    std::sort(sorted.begin(), sorted.end());
    const auto n = static_cast<double>(sorted.size());
    double sum = 0;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      sum += (2 * static_cast<double>(i + 1) - n - 1) * sorted[i];
    }
    return sum / (n * std::accumulate(sorted.begin(), sorted.end(), 0.0));
  }
};

struct Entry {
  double score = 0;
  std::int64_t occurrences = 0;
  std::int64_t co_occurrences = 0;
};

class Vocabulary final : public AccumulatedAttention {
 public:
  Vocabulary(const Params& params, const Subject& subject)
      : AccumulatedAttention(subject), window_(params.integer("window")) {}

  std::vector<AnalysisRow> finish() override {
    std::vector<AnalysisRow> rows;
    for (int head = 0; head < unit().group_size(); ++head) {
      const std::map<std::int32_t, Entry> entries = collect(head);
      std::vector<double> score;
      std::vector<double> occurrences;
      std::vector<double> co_occurrences;
      for (const auto& [token, entry] : entries) {
        score.push_back(entry.score);
        occurrences.push_back(static_cast<double>(entry.occurrences));
        co_occurrences.push_back(static_cast<double>(entry.co_occurrences));
      }
      const Value with_occurrences = value_of(rank_correlation(score, occurrences));
      const Value with_co_occurrences = value_of(rank_correlation(score, co_occurrences));
      for (const auto& [token, entry] : entries) {
        rows.push_back({head,
                        {std::int64_t{token}, std::int64_t{window_}, entry.score, entry.occurrences,
                         entry.co_occurrences, with_occurrences, with_co_occurrences}});
      }
    }
    return rows;
  }

 private:
  std::map<std::int32_t, Entry> collect(int head) const {
    const std::vector<std::int32_t>& ids = unit().token_ids;
    const int n = unit().num_tokens();
    std::map<std::int32_t, Entry> entries;
    for (int j = 0; j < n; ++j) {
      Entry& entry = entries[ids[j]];
      entry.score += scores(head)[j];
      ++entry.occurrences;
      entry.co_occurrences += std::min(j, window_) + std::min(n - 1 - j, window_);
    }
    return entries;
  }

  int window_;
};

AnalysisMemory memory_of_heavy_hitters(const Params&, const AnalysisSize& size) {
  const std::size_t entries = size.group * size.tokens;
  return {.rows = entries, .bytes = entries * sizeof(double)};
}

/// At most as many entries as tokens.
AnalysisMemory memory_of_vocabulary(const Params&, const AnalysisSize& size) {
  const std::size_t entries = size.group * size.tokens;
  return {.rows = entries, .bytes = entries * sizeof(double)};
}

}  // namespace

AnalysisInfo heavy_hitters_analysis() {
  return {.name = "heavy-hitters",
          .shows = "per query head and position: the attention it collects",
          .source = kHeavyHittersSource,
          .columns = {integer_column("position", "token of the sequence, 0-based").key(),
                      integer_column("token_id", "vocabulary entry; NULL if the trace has none"),
                      real_column("accumulated_score",
                                  "sum of a[t,j] over all steps t >= j, in steps: 0..n-j"),
                      integer_column("rank",
                                     "1: the largest accumulated_score of the head; the "
                                     "lower position first among equals"),
                      real_column("cumulative_share",
                                  "share of all attention on positions of this rank or better; "
                                  "0..1")},
          .summary = {"accumulated_score"},
          .memory = memory_of_heavy_hitters,
          .make = make_analysis<HeavyHitters>};
}

AnalysisInfo concentration_analysis() {
  return {.name = "concentration",
          .shows = "per query head: how much of all attention few positions collect",
          .source = kHeavyHittersSource,
          .columns = {real_column("best_1_percent",
                                  "share of all attention on the 1% of positions "
                                  "with the largest accumulated score; 0..1"),
                      real_column("best_5_percent", "the same for 5%"),
                      real_column("best_10_percent", "the same for 10%"),
                      real_column("best_20_percent", "the same for 20%"),
                      real_column("gini",
                                  "Gini coefficient of the accumulated scores: 0 all "
                                  "equal, 1 one position has all")},
          .summary = {"best_1_percent", "best_5_percent", "best_20_percent", "gini"},
          .make = make_analysis<Concentration>};
}

AnalysisInfo vocabulary_analysis() {
  return {
      .name = "vocabulary",
      .shows =
          "per query head and vocabulary entry: the attention it collects and how often "
          "it stands near others",
      .source = kHeavyHittersSource,
      .notes =
          "the paper does not define co-occurrence: here pairs of positions at most "
          "window apart, in the same sequence",
      .params = {Param::integer("window", 10, 1, 1'000'000,
                                "positions to either side that count as near")},
      .columns = {integer_column("token_id", "vocabulary entry").key(),
                  integer_column("window", "positions to either side that count as near").key(),
                  real_column("accumulated_score",
                              "sum of a[t,j] over all steps and all positions j of the entry, in "
                              "steps"),
                  integer_column("occurrences", "positions that hold the entry"),
                  integer_column("co_occurrences",
                                 "pairs of a position of the entry and another one near it"),
                  real_column(
                      "occurrence_correlation",
                      "Spearman's rank correlation of accumulated_score and occurrences over "
                      "the entries of the head; -1..1, NULL if either is constant"),
                  real_column("co_occurrence_correlation",
                              "the same with co_occurrences (the claim of Figure 2b)")},
      .summary = {"occurrence_correlation", "co_occurrence_correlation"},
      .needs = {Dataset::token_ids},
      .memory = memory_of_vocabulary,
      .make = make_analysis<Vocabulary>};
}

}  // namespace kvsim
