#include "sim/replay/estimator_steps.h"

#include <algorithm>

namespace kvsim {
namespace {

constexpr int kVectorsPerToken = 2;  // its key and its value
constexpr std::int32_t kNever = -1;

Context with_budget(Context context, int vectors) {
  context.budget = vectors;
  return context;
}

std::span<const float> row_of(const Matrix& matrix, int row) {
  return {matrix.row(row).data(), static_cast<std::size_t>(matrix.cols())};
}

}  // namespace

EstimatorBudget divide_budget(const Rules& rules, int budget) {
  const int tokens = budget / kVectorsPerToken;
  EstimatorBudget divided;
  divided.protected_first = std::min(rules.protect_first, tokens);
  divided.protected_newest = std::min(rules.protect_newest, tokens - divided.protected_first);
  divided.vectors =
      budget - kVectorsPerToken * (divided.protected_first + divided.protected_newest);
  return divided;
}

Rules estimator_rules(const Spec& estimator, int budget) {
  return estimator.rules({.budget = std::max(1, budget / kVectorsPerToken)});
}

Rules rules_at(const Spec& policy, int budget) {
  return policy.is_estimator() ? estimator_rules(policy, budget) : policy.rules({.budget = budget});
}

Amounts check_estimator(const Spec& estimator, int budget) {
  const EstimatorBudget divided = divide_budget(estimator_rules(estimator, budget), budget);
  return estimator.make_estimator({.budget = divided.vectors})->amounts();
}

EstimatorSteps::EstimatorSteps(const Spec& estimator, const Context& context, int prompt,
                               ReplayedUnit& unit)
    : replayed_(unit),
      unit_(unit.unit()),
      rules_(estimator_rules(estimator, context.budget)),
      budget_(divide_budget(rules_, context.budget)),
      estimator_(estimator.make_estimator(with_budget(context, budget_.vectors))),
      prompt_(prompt) {}

std::span<const Entry> EstimatorSteps::run(int step) {
  const int leaving = step - budget_.protected_newest;
  if (leaving >= budget_.protected_first &&
      (budget_.vectors >= kVectorsPerToken || budget_.protected_newest == 0))
    feed(leaving, step);
  collect_entries(step);
  record_usage(step);
  return entries_;
}

void EstimatorSteps::feed(int token, int step) {
  const bool is_stored = rules_.stored && token != step && step >= prompt_;
  const Unit& source = is_stored ? replayed_.stored(*rules_.stored).unit : unit_;
  estimator_->update({token, row_of(source.key, token), row_of(source.value, token)});
  has_estimates_ = true;
}

void EstimatorSteps::collect_entries(int step) {
  const auto add_as_it_is = [&](int token) { entries_.push_back({token, true, 1, 1}); };
  entries_.clear();
  for (int token = 0; token < std::min(budget_.protected_first, step + 1); ++token)
    add_as_it_is(token);
  if (has_estimates_) {
    const auto estimated = estimator_->entries();
    entries_.insert(entries_.end(), estimated.begin(), estimated.end());
  }
  for (int token = std::max(budget_.protected_first, step + 1 - budget_.protected_newest);
       token <= step; ++token) {
    add_as_it_is(token);
  }
}

void EstimatorSteps::record_usage(int step) {
  last_held_.resize(static_cast<std::size_t>(step) + 1, kNever);
  std::size_t keys = 0;
  std::size_t values = 0;
  for (const Entry& entry : entries_) {
    // Without room for one token, the newest is attended to by its own step but not in the cache.
    if (entry.token == step && budget_.vectors < kVectorsPerToken &&
        budget_.protected_newest == 0 && step >= budget_.protected_first)
      continue;
    ++keys;
    if (!entry.has_value) continue;
    ++values;
    last_held_[entry.token] = step;
  }
  if (step + 1 < prompt_) return;
  std::size_t key_bytes = unit_.key.cols() * unit_.key_bytes;
  std::size_t value_bytes = unit_.value.cols() * unit_.value_bytes;
  if (rules_.stored) {
    key_bytes = replayed_.stored(*rules_.stored).key_bytes;
    value_bytes = replayed_.stored(*rules_.stored).value_bytes;
  }
  const std::size_t counters = has_estimates_ ? estimator_->counter_bytes() : 0;
  usage_.peak_tokens = std::max(usage_.peak_tokens, keys + values);
  usage_.peak_bytes =
      std::max(usage_.peak_bytes, keys * key_bytes + values * value_bytes + counters);
}

CacheUsage EstimatorSteps::usage(int num_tokens) const {
  CacheUsage usage = usage_;
  usage.is_set = false;
  usage.evicted_after = last_held_;
  for (std::int32_t token = 0; token < num_tokens; ++token) {
    std::int32_t& step = usage.evicted_after[token];
    step = step == num_tokens - 1 ? num_tokens : std::max({step, token, prompt_ - 1});
  }
  return usage;
}

}  // namespace kvsim
