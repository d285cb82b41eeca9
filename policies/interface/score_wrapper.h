#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "policies/interface/policy_info.h"

namespace kvsim {

/// The slots of a cache from `begin` to `end`, without `end`.
struct SlotRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
};

/// A policy that changes the scores of another one (CombinatorInfo::wrap). The other one sees its
/// own scores of the step before, as if it were alone: they are kept by text position.
class ScoreWrapper : public Policy {
 public:
  /// `rules` are those of the whole spec, `budget` is the policy's.
  ScoreWrapper(std::unique_ptr<Policy> inner, const Rules& rules, int budget);

  Rules rules() const final { return rules_; }
  void update(const Step& step, std::span<double> scores) final;

 protected:
  /// Writes `scores`, parallel to step.tokens, from those of the policy alone, as published.
  virtual void change(const Step& step, std::span<const double> own, std::span<double> scores) = 0;

  /// The step as the policy sees it.
  virtual Step shown(const Step& step) const { return step; }

  /// The slots whose tokens the rules do not protect, of a cache of `size` tokens. Where whole
  /// pages leave, a few more tokens may be protected.
  SlotRange candidates(std::size_t size) const;

 private:
  std::unique_ptr<Policy> inner_;
  Rules rules_;
  std::size_t protected_first_;
  std::size_t protected_newest_;
  std::vector<double> own_;    // the policy's scores, by text position
  std::vector<double> taken_;  // those of a step's tokens
};

/// CombinatorInfo::change of one that has a ScoreWrapper: engines cannot compute the scores.
void leave_rule(Rules& rules);

/// Why no ScoreWrapper can change this policy, whose rules all other combinators have changed;
/// empty: one can.
std::string why_no_scores(const PolicyInfo& policy, const Rules& rules);

}  // namespace kvsim
