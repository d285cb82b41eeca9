#pragma once

#include "sim/core/altered_attention.h"
#include "sim/core/configuration_replay.h"
#include "sim/core/unit_record.h"

namespace kvsim {

/// An estimator on its way through one unit. Protected tokens are held as they are and reach the
/// estimator when they are protected no longer; each takes two vectors of the budget.
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
  void note_holdings(int step);

  ReplayedUnit& replayed_;
  const Unit& unit_;
  Rules rules_;
  std::unique_ptr<Estimator> estimator_;
  int prompt_;  // the steps before this one attend in full and are not measured
  AlteredAttention attention_;
  UnitRecord record_;
  int first_;   // so many first tokens are held as they are
  int newest_;  // and so many newest ones
  int room_;    // vectors left for the estimator
  bool is_fed_ = false;
  std::vector<Entry> entries_;
  std::vector<std::int32_t> last_held_;  // per token: the last step that held its value
  Holdings holdings_;
};

}  // namespace kvsim
