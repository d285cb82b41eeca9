// How eviction changes attention scores (Scissorhands section 5, Figure 4).

#include <algorithm>

#include "analysis/policy_runs.h"
#include "analysis/row_analysis.h"

namespace kvsim {
namespace {

class ScoreChange final : public RowAnalysis {
 public:
  ScoreChange(const Params& params, const Subject& subject)
      : RowAnalysis(subject),
        num_bins_(params.integer("bins")),
        histograms_(subject.runs.size(),
                    std::vector<Histogram>(unit().query.size(), Histogram(num_bins_ + 2))) {}

  std::vector<AnalysisRow> finish() override {
    std::vector<AnalysisRow> rows;
    for (std::size_t run = 0; run < histograms_.size(); ++run) {
      for (int head = 0; head < unit().group_size(); ++head) {
        for (int bin = 0; bin < num_bins_ + 2; ++bin) {
          rows.push_back({head, with_run_values(subject(), subject().runs[run],
                                                values_of(bin, histograms_[run][head][bin]))});
        }
      }
    }
    return rows;
  }

 private:
  struct Bin {
    std::int64_t entries = 0;
    std::int64_t pivotal = 0;
    double attention = 0;
  };
  using Histogram = std::vector<Bin>;  // missing tokens, then bins of [0, 1), then 1 and more

  void add_row(const AttentionRow& row) override {
    if (row.step < subject().first_measured()) return;
    for (std::size_t run = 0; run < histograms_.size(); ++run) {
      add_row(row, subject().runs[run], histograms_[run][row.head]);
    }
  }

  // (p - a) / a is the same for all attended tokens, as their weights are normalised by one smaller
  // sum.
  void add_row(const AttentionRow& row, const PolicyRun& run, Histogram& histogram) const {
    double attended = row.sink_weight();
    for (int j = row.first_visible; j <= row.step; ++j) {
      if (is_attended(run, j, row.step)) attended += row.weight()[j];
    }
    const double change = row.weight_sum() / attended - 1;
    const int place =
        static_cast<int>(std::min<double>(std::max(change, 0.0) * num_bins_, num_bins_));
    for (int j = row.first_visible; j <= row.step; ++j) {
      const float weight = row.weight()[j];
      if (weight == 0) continue;  // its relative change is undefined
      Bin& bin = histogram[is_attended(run, j, row.step) ? 1 + place : 0];
      ++bin.entries;
      bin.pivotal += is_pivotal(weight, row.weight_sum(), row.step);
      bin.attention += weight / row.weight_sum();
    }
  }

  std::vector<Value> values_of(int bin, const Bin& counts) const {
    const double width = 1.0 / num_bins_;
    double low = -1;
    std::optional<double> high = -1;
    if (bin > 0) {
      low = (bin - 1) * width;
      high = bin * width;
    }
    if (bin == num_bins_ + 1) high.reset();
    return {std::int64_t{num_bins_}, std::int64_t{bin}, low, value_of(high), counts.entries,
            counts.pivotal,          counts.attention};
  }

  int num_bins_;
  std::vector<std::vector<Histogram>> histograms_;  // per run and head
};

}  // namespace

AnalysisInfo score_change_analysis() {
  return {
      .name = "score-change",
      .shows = "per query head, replay and bin: how many attention scores changed by so much",
      .source = "Scissorhands section 5, Figure 4",
      .notes =
          "the change of a score is (p[t,j] - a[t,j]) / a[t,j]: -1 for a missing token, else "
          "the same for all tokens of a step; entries with a[t,j] = 0 in fp32 do not count",
      .params = {Param::integer("bins", 20, 1, 10'000, "bins of equal width in [0, 1)")},
      .columns = with_run_columns(
          {integer_column("bins", "bins of equal width in [0, 1)").key(),
           integer_column("bin", "0: missing tokens; 1..bins: [0, 1); bins + 1: 1 and more").key(),
           real_column("low", "least change in the bin"),
           real_column("high", "changes are below this; NULL: no limit"),
           integer_column("entries", "visible entries (t, j) of measured steps in the bin"),
           integer_column("pivotal", "of these, those with a[t,j] > 1/(t+1)"),
           real_column("attention", "sum of their a[t,j], in steps")}),
      .summary = {"entries", "pivotal", "attention"},
      .summary_by = {"policy", "budget", "low"},
      .accepts = evicts_exactly,
      .make = make_analysis<ScoreChange>};
}

}  // namespace kvsim
