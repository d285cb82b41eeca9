// Do two policies keep the same tokens?

#include <algorithm>

#include "analysis/policy_runs.h"
#include "sim/base/interrupt.h"

namespace kvsim {
namespace {

class Overlap final : public Analysis {
 public:
  Overlap(const Params& params, const Subject& subject)
      : subject_(subject), num_intervals_(params.integer("intervals")) {}

  std::vector<AnalysisRow> finish() override {
    std::vector<AnalysisRow> rows;
    const std::vector<PolicyRun>& runs = subject_.runs;
    for (std::size_t b = 0; b < runs.size(); ++b) {
      for (std::size_t a = 0; a < b; ++a) {
        poll_interrupt();
        if (runs[a].budget == runs[b].budget) compare(runs[a], runs[b], rows);
      }
    }
    return rows;
  }

 private:
  void compare(const PolicyRun& run, const PolicyRun& other, std::vector<AnalysisRow>& rows) const {
    const std::vector<double> jaccard = overlap_by_step(run, other);
    const int first = first_step();
    const std::int64_t steps = subject_.unit.num_tokens() - first;
    for (std::int64_t interval = 0; interval < num_intervals_; ++interval) {
      const auto begin = static_cast<int>(first + interval * steps / num_intervals_);
      const auto end = static_cast<int>(first + (interval + 1) * steps / num_intervals_);
      if (begin == end) continue;
      double sum = 0;
      double least = 1;
      for (int step = begin; step < end; ++step) {
        sum += jaccard[step];
        least = std::min(least, jaccard[step]);
      }
      const std::vector<Value> values =
          with_run_values(subject_, run,
                          {other.policy.text(), std::int64_t{num_intervals_}, interval,
                           std::int64_t{begin}, std::int64_t{end - 1}, sum / (end - begin), least});
      for (int head = 0; head < subject_.unit.group_size(); ++head) rows.push_back({head, values});
    }
  }

  // The first step that may evict.
  int first_step() const { return std::max(0, subject_.first_measured() - 1); }

  std::vector<double> overlap_by_step(const PolicyRun& run, const PolicyRun& other) const {
    const int n = subject_.unit.num_tokens();
    // Token j is in both caches from step j until the first of them evicts it, and in at least one
    // until the second evicts it. The vectors hold the changes of the two counts per step.
    std::vector<int> both(static_cast<std::size_t>(n) + 1, 0);
    std::vector<int> either = both;
    for (int j = 0; j < n; ++j) {
      const auto [first, last] =
          std::minmax(run.trajectory.evicted_after[j], other.trajectory.evicted_after[j]);
      ++both[j];
      --both[first];
      ++either[j];
      --either[last];
    }
    std::vector<double> jaccard;
    int in_both = 0;
    int in_either = 0;
    for (int step = 0; step < n; ++step) {
      in_both += both[step];
      in_either += either[step];
      jaccard.push_back(in_either == 0 ? 1 : static_cast<double>(in_both) / in_either);
    }
    return jaccard;
  }

  const Subject& subject_;
  int num_intervals_;
};

}  // namespace

AnalysisInfo overlap_analysis() {
  return {.name = "overlap",
          .shows =
              "per head, pair of policies at the same budget, and interval of steps: how alike "
              "what they keep is",
          .source = "kvsim's own",
          .notes =
              "what a cache keeps is a matter of the KV head: the query heads of a group have "
              "the same rows",
          .params = {Param::integer("intervals", 10, 1, 100'000,
                                    "parts of equal length that the steps are averaged over")},
          .columns = with_run_columns(
              {text_column("other_policy", "canonical spec of the other policy").key(),
               integer_column("intervals", "parts that the steps are averaged over").key(),
               integer_column("interval", "0-based").key(),
               integer_column("first_step", "of the interval"),
               integer_column("last_step", "of the interval, included"),
               real_column("jaccard",
                           "mean over its steps of tokens that both keep after the step over "
                           "tokens that either keeps; 0..1"),
               real_column("jaccard_least", "the least of them")}),
          .summary = {"jaccard"},
          .summary_by = {"policy", "other_policy", "budget"},
          .reads_attention = false,
          .accepts = evicts_exactly,
          .min_policies = 2,
          .make = make_analysis<Overlap>};
}

}  // namespace kvsim
