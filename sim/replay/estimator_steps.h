#pragma once

#include "policies/interface/estimator.h"
#include "policies/registry/spec.h"
#include "sim/outputs/replayed_unit.h"
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

/// The rules of any spec at a budget; of an estimator, estimator_rules().
Rules rules_at(const Spec& policy, int budget);

/// Throws UsageError if the budget has no room for what the estimator's parameters ask for. Returns
/// what they come to.
Amounts check_estimator(const Spec& estimator, int budget);

/// Runs an estimator step by step on one unit. A protected token stays in the cache as it is; the
/// estimator receives it when its protection ends.
class EstimatorSteps {
 public:
  /// `context` is that of the unit, with the whole budget. Steps before `prompt` attend in full.
  EstimatorSteps(const Spec& estimator, const Context& context, int prompt, ReplayedUnit& unit);

  const Rules& rules() const { return rules_; }

  /// The token of `step` arrives. Returns the entries that the step attends to.
  std::span<const Entry> run(int step);

  /// After step `num_tokens` - 1.
  CacheUsage usage(int num_tokens) const;

  Amounts amounts() const { return estimator_->amounts(); }

 private:
  void feed(int token, int step);
  void collect_entries(int step);
  void record_usage(int step);

  ReplayedUnit& replayed_;
  const Unit& unit_;
  Rules rules_;
  EstimatorBudget budget_;
  std::unique_ptr<Estimator> estimator_;
  int prompt_;
  bool has_estimates_ = false;
  std::vector<Entry> entries_;
  std::vector<std::int32_t> last_held_;  // per token: the last step that held its value
  CacheUsage usage_;                     // without the tokens
};

}  // namespace kvsim
