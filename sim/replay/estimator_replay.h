#pragma once

#include "sim/outputs/altered_attention.h"
#include "sim/replay/configuration_replay.h"
#include "sim/replay/unit_record.h"

namespace kvsim {

/// How the budget of an estimator is divided. It counts vectors: a key or a value.
struct EstimatorBudget {
  int protected_first = 0;   ///< first tokens that stay as they are, two vectors each
  int protected_newest = 0;  ///< newest tokens, likewise
  int vectors = 0;           ///< what is left to the estimator
};

/// Divides a budget of `budget` vectors, all of it, also where the text has fewer.
EstimatorBudget divide_budget(const Rules& rules, int budget);

/// The rules of an estimator's combinators: shares are of the budget in tokens, two vectors each.
Rules estimator_rules(const Spec& estimator, int budget);

/// Throws UsageError if the budget has no room for what the estimator's parameters ask for. Returns
/// what they come to.
Amounts check_estimator(const Spec& estimator, int budget);

/// Replays an estimator on one unit. A protected token stays in the cache as it is; the estimator
/// receives it when its protection ends.
class EstimatorReplay final : public ConfigurationReplay {
 public:
  EstimatorReplay(const Configuration& configuration, ReplayedUnit& unit,
                  const ReplayOptions& options);

  void advance() override;
  std::vector<Outcome> finish() override;

 private:
  void run_step(int step, int row);
  void feed(int token, int step);
  void collect_entries(int step);
  void record_usage(int step);

  ReplayedUnit& replayed_;
  const Unit& unit_;
  Rules rules_;
  EstimatorBudget budget_;
  std::unique_ptr<Estimator> estimator_;
  int prompt_;  // the steps before this one attend in full and are not measured
  AlteredAttention attention_;
  UnitRecord record_;
  bool has_estimates_ = false;
  std::vector<Entry> entries_;
  std::vector<std::int32_t> last_held_;  // per token: the last step that held its value
  CacheUsage usage_;
};

}  // namespace kvsim
