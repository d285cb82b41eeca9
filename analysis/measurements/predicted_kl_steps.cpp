// Which heads and steps cost what: the predicted KL of a replay by interval of steps.

#include <optional>

#include "analysis/policy_runs.h"

namespace kvsim {
namespace {

class PredictedKlSteps final : public Analysis {
 public:
  PredictedKlSteps(const Params& params, const Subject& subject)
      : subject_(subject), num_intervals_(params.integer("intervals")) {}

  std::vector<AnalysisRow> finish() override {
    std::vector<AnalysisRow> rows;
    for (const PolicyRun& run : subject_.runs) {
      for (int head = 0; head < subject_.unit.group_size(); ++head) add_rows(run, head, rows);
    }
    return rows;
  }

 private:
  void add_rows(const PolicyRun& run, int head, std::vector<AnalysisRow>& rows) const {
    const auto nats = run.trajectory.predicted_kl.row(head).cast<double>().eval();
    const double sum = nats.sum();
    const std::int64_t steps = nats.size();
    for (std::int64_t interval = 0; interval < num_intervals_; ++interval) {
      const std::int64_t begin = interval * steps / num_intervals_;
      const std::int64_t end = (interval + 1) * steps / num_intervals_;
      if (begin == end) continue;
      const double of_interval = nats.segment(begin, end - begin).sum();
      std::optional<double> share;
      if (sum > 0) share = of_interval / sum;
      rows.push_back(
          {head,
           with_run_values(subject_, run,
                           {std::int64_t{num_intervals_}, interval,
                            subject_.first_measured() + begin, subject_.first_measured() + end - 1,
                            of_interval / static_cast<double>(steps), value_of(share)})});
    }
  }

  const Subject& subject_;
  int num_intervals_;
};

}  // namespace

AnalysisInfo predicted_kl_steps_analysis() {
  return {.name = "predicted-kl-steps",
          .shows = "per query head, replay and interval of steps: the predicted KL that it causes",
          .source = "the Fisher information of the predictions: sim/outputs/score_gradients.h",
          .notes = "credited to the step whose output changes, not to the later tokens that suffer",
          .params = {Param::integer("intervals", 10, 1, 100'000,
                                    "parts of equal length that the steps are summed over")},
          .columns = with_run_columns(
              {integer_column("intervals", "parts that the steps are summed over").key(),
               integer_column("interval", "0-based").key(),
               integer_column("first_step", "of the interval"),
               integer_column("last_step", "of the interval, included"),
               real_column("predicted_kl",
                           "nats of the interval over all measured steps, so that intervals, query "
                           "heads and layers add up to the view predicted_kl"),
               real_column("share", "of the head's predicted KL, 0..1; NULL if that is 0")}),
          .summary = {"predicted_kl"},
          .summary_by = {"policy", "budget", "interval"},
          .reads_attention = false,
          .needs = {Dataset::output_score_grad},
          .accepts = [](const Spec&) { return true; },
          .make = make_analysis<PredictedKlSteps>};
}

}  // namespace kvsim
