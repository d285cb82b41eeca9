// Sparsity of attention (H2O section 3.1, Figure 2a).

#include <algorithm>

#include "analysis/row_analysis.h"

namespace kvsim {
namespace {

class Sparsity final : public RowAnalysis {
 public:
  Sparsity(const Params& params, const Subject& subject)
      : RowAnalysis(subject), threshold_(params.real("threshold")), heads_(unit().query.size()) {}

  std::vector<AnalysisRow> finish() override {
    if (subject().device != nullptr) count_on(*subject().device);
    std::vector<AnalysisRow> rows;
    for (int head = 0; head < unit().group_size(); ++head) {
      const Counts& counts = heads_[head];
      rows.push_back(
          {head,
           {threshold_, static_cast<double>(counts.small) / static_cast<double>(counts.visible),
            counts.visible}});
    }
    return rows;
  }

 private:
  struct Counts {
    std::int64_t small = 0;
    std::int64_t visible = 0;
  };

  void count_on(const DeviceSummaries& device) {
    const std::vector<std::int64_t> small = device.count_small(unit(), threshold_);
    for (std::size_t head = 0; head < heads_.size(); ++head) {
      heads_[head].small = small[head];
      for (int step = 0; step < unit().num_tokens(); ++step) {
        heads_[head].visible += num_visible(unit(), step);
      }
    }
  }

  void add_row(const AttentionRow& row) override {
    Counts& counts = heads_[row.head];
    // 1, unless a sink has more.
    const double limit = threshold_ * std::ranges::max(row.weight().subspan(row.first_visible));
    for (const std::int32_t j : row.visible) counts.small += row.weight()[j] < limit;
    counts.visible += std::ssize(row.visible);
  }

  double threshold_;
  std::vector<Counts> heads_;
};

}  // namespace

AnalysisInfo sparsity_analysis() {
  return {
      .name = "sparsity",
      .shows = "per query head: how much of the attention matrix is next to nothing",
      .source = "H2O section 3.1, Figure 2a",
      .notes =
          "only visible entries count: what the causal mask, a sliding window or a chunk hides, or "
          "the model does not select, is not sparse but absent; a learned sink is no entry",
      .params = {Param::real("threshold", 0.01, 0, 1,
                             "share of the row's largest attention below which an entry is "
                             "next to nothing")},
      .columns = {real_column("threshold", "share of the row's largest attention, 0..1").key(),
                  real_column("sparsity",
                              "share of all visible entries (t, j <= t) with a[t,j] < "
                              "threshold * max_j a[t,j]; 0..1"),
                  integer_column("entries", "visible entries")},
      .summary = {"sparsity"},
      .runs_on_device = true,
      .make = make_analysis<Sparsity>};
}

}  // namespace kvsim
