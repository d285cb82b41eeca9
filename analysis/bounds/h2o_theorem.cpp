#include "analysis/bounds/h2o_theorem.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace kvsim {
namespace {

constexpr double kGreedyShare = 1 - 1 / std::numbers::e;  // of the optimum, by Theorem D.17
constexpr double kProofFactor = 10;  // theta = gamma = alpha / (10 n), epsilon0 = beta / (10 n)
constexpr double kRoundingOfSums = 1e-5;  // relative, of sums of attention in single precision

/// The smallest x >= 0 such that to >= (1 - x) * from.
double fall(double from, double to) { return from <= to ? 0 : 1 - to / from; }

}  // namespace

void H2oTheorem::add(const H2oStep& step) {
  const double theta = fall(step.earlier, step.held);
  const double above = std::max(0.0, step.chosen - step.achieved);
  theta_ = std::max(theta_, theta);
  above_ = std::max(above_, above);
  above_sum_ += above;
  const double below = step.achieved - step.chosen;
  if (below > kRoundingOfSums * step.achieved) below_ = std::max(below_, below);
  evicting_steps_ += step.evicts;
  greedy_steps_ += step.evicts && step.is_greedy;
  log_induction_ += std::log1p(-theta);
  if (!optima_.empty()) {
    const double gamma = fall(step.optimum, optima_.back());
    gamma_ = std::max(gamma_, gamma);
    gamma_printed_ = std::max(gamma_printed_, fall(optima_.back(), step.optimum));
    log_induction_ += std::log1p(-gamma);
  }
  optima_.push_back(step.optimum);
  ratios_.push_back(step.optimum == 0 ? 1 : step.achieved / step.optimum);
}

double H2oTheorem::ratio_mean() const {
  return std::accumulate(ratios_.begin(), ratios_.end(), 0.0) / static_cast<double>(steps());
}

double H2oTheorem::ratio_min() const { return *std::min_element(ratios_.begin(), ratios_.end()); }

double H2oTheorem::greedy_share() const {
  return static_cast<double>(greedy_steps_) / static_cast<double>(evicting_steps_);
}

double H2oTheorem::alpha() const { return kProofFactor * num_tokens_ * std::max(theta_, gamma_); }

double H2oTheorem::beta() const { return kProofFactor * num_tokens_ * above_; }

std::optional<double> H2oTheorem::bound() const {
  if (alpha() >= 1) return std::nullopt;
  return kGreedyShare * (1 - alpha());
}

std::optional<double> H2oTheorem::guaranteed_ratio() const {
  const double optimum = *std::max_element(optima_.begin(), optima_.end());
  if (!bound() || *bound() * optimum <= beta()) return std::nullopt;
  return *bound() - beta() / optimum;
}

std::optional<double> H2oTheorem::induction_bound() const {
  const double ratio = kGreedyShare * std::exp(log_induction_) - above_sum_ / optima_.back();
  if (!(ratio > 0)) return std::nullopt;
  return ratio;
}

std::vector<std::string> H2oTheorem::broken_assumptions() const {
  std::vector<std::string> broken;
  if (greedy_steps_ < evicting_steps_) {
    broken.emplace_back("the policy does not always evict the lowest score");
  }
  if (steps() < 2) broken.emplace_back("there is no second step to compare with");
  if (below_ > 0) broken.emplace_back("the approximate function is below the exact one");
  if (!bound()) broken.emplace_back("alpha >= 1");
  return broken;
}

std::optional<bool> H2oTheorem::holds() const {
  if (!guaranteed_ratio()) return std::nullopt;
  for (std::size_t i = 0; i < ratios_.size(); ++i) {
    if (ratios_[i] * optima_[i] < *bound() * optima_[i] - beta()) return false;
  }
  return true;
}

}  // namespace kvsim
