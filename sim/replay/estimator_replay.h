#pragma once

#include "sim/outputs/altered_attention.h"
#include "sim/replay/configuration_replay.h"
#include "sim/replay/unit_record.h"

namespace kvsim {

/// Replays an estimator on one unit. The budget counts vectors: a key or a value. A protected token
/// stays in the cache as it is, as two vectors; the estimator receives it when its protection ends.
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
  std::unique_ptr<Estimator> estimator_;
  int prompt_;  // the steps before this one attend in full and are not measured
  AlteredAttention attention_;
  UnitRecord record_;
  int protected_first_;   // number of first tokens that are protected
  int protected_newest_;  // number of newest tokens that are protected
  int free_vectors_;      // budget of the estimator, in vectors
  bool has_estimates_ = false;
  std::vector<Entry> entries_;
  std::vector<std::int32_t> last_held_;  // per token: the last step that held its value
  CacheUsage usage_;
};

}  // namespace kvsim
