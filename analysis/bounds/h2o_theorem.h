#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvsim {

/// One step i of a replay as H2O's Lemmas D.29 and D.30 see it. S_i is the set held before the
/// step, S_{i+1} the one held after it; f is the exact function, g the one by which the policy
/// decides: f itself or the approximate function of Definition D.22.
struct H2oStep {
  double optimum = 0;   ///< opt_i of Definition D.27
  double achieved = 0;  ///< f_i(S_{i+1})
  double chosen = 0;    ///< g_i(S_{i+1})
  double held = 0;      ///< g_i(S_i)
  double earlier = 0;   ///< g_{i-1}(S_i), which is `chosen` of the step before
  bool evicts = false;
  bool is_greedy = false;  ///< nothing that stays scores less by g than what leaves
};

/// H2O Theorem 4.4 (formal: D.32) on the steps of one replay. The conditions of the proof are
/// measured on the sets that occur.
class H2oTheorem {
 public:
  explicit H2oTheorem(int num_tokens) : num_tokens_(num_tokens) {}

  void add(const H2oStep& step);

  std::int64_t steps() const { return static_cast<std::int64_t>(ratios_.size()); }
  double ratio_mean() const;
  double ratio_min() const;
  double theta() const { return theta_; }  ///< least of Definitions D.25 and D.26
  double gamma() const { return gamma_; }  ///< least of Definition D.28 as the lemmas use it
  double gamma_printed() const { return gamma_printed_; }
  double epsilon0() const {
    return above_;
  }  ///< largest g - f: the Universal Approximate Condition
  double epsilon0_below() const {
    return below_;
  }                             ///< largest f - g: D.30's fourth step has it as 0
  double greedy_share() const;  ///< of the steps that evict

  double alpha() const;                 ///< 10 n max(theta, gamma)
  double beta() const;                  ///< 10 n epsilon0
  std::optional<double> bound() const;  ///< (1 - 1/e) (1 - alpha); none from alpha = 1 on

  /// The largest ((1 - 1/e) (1 - alpha) opt_i - beta) / opt_i; none if it is not above 0.
  std::optional<double> guaranteed_ratio() const;

  /// What the lemmas give at the last step with theta, gamma and epsilon0 of each step, as a share
  /// of the optimum; none if it is not above 0.
  std::optional<double> induction_bound() const;

  std::vector<std::string> broken_assumptions() const;
  /// Whether the inequality is true at every step; none without guaranteed_ratio().
  std::optional<bool> holds() const;

 private:
  int num_tokens_;
  std::vector<double> ratios_;  // f_i(S_{i+1}) / opt_i
  std::vector<double> optima_;
  std::int64_t evicting_steps_ = 0;
  std::int64_t greedy_steps_ = 0;  // of evicting_steps_
  double theta_ = 0;
  double gamma_ = 0;
  double gamma_printed_ = 0;
  double above_ = 0;
  double above_sum_ = 0;
  double below_ = 0;
  double log_induction_ = 0;  // log of the product of (1 - theta_i) (1 - gamma_i)
};

}  // namespace kvsim
