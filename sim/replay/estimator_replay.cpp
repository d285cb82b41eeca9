#include "sim/replay/estimator_replay.h"

#include <algorithm>

namespace kvsim {
namespace {

constexpr int kVectorsPerToken = 2;  // its key and its value
constexpr std::int32_t kNever = -1;

/// Rules take shares of a budget in tokens; an estimator's budget is in vectors.
Context with_budget_in_tokens(Context context) {
  context.budget = std::max(1, context.budget / kVectorsPerToken);
  return context;
}

std::span<const float> row_of(const Matrix& matrix, int row) {
  return {matrix.row(row).data(), static_cast<std::size_t>(matrix.cols())};
}

}  // namespace

EstimatorReplay::EstimatorReplay(const Configuration& configuration, ReplayedUnit& unit,
                                 const ReplayOptions& options)
    : replayed_(unit),
      unit_(unit.unit()),
      rules_(configuration.policy.rules(
          with_budget_in_tokens(context_of(configuration, unit_, options)))),
      estimator_(configuration.policy.make_estimator(context_of(configuration, unit_, options))),
      prompt_(first_measured(options.mode, unit_.prompt_length)),
      attention_(unit, rules_, prompt_),
      record_(unit_, prompt_, options) {
  const int budget = std::min(configuration.budget_of(0), kVectorsPerToken * unit_.num_tokens());
  protected_first_ = std::min(rules_.protect_first, budget / kVectorsPerToken);
  protected_newest_ = std::min(rules_.protect_newest, budget / kVectorsPerToken - protected_first_);
  free_vectors_ = budget - kVectorsPerToken * (protected_first_ + protected_newest_);
  last_held_.assign(unit_.num_tokens(), kNever);
}

void EstimatorReplay::advance() {
  const AttentionBlock& block = replayed_.block();
  for (int row = 0; row < block.num_steps; ++row) run_step(block.first_step + row, row);
}

void EstimatorReplay::run_step(int step, int row) {
  const int leaving = step - protected_newest_;
  if (leaving >= protected_first_ && (free_vectors_ >= kVectorsPerToken || protected_newest_ == 0))
    feed(leaving, step);
  collect_entries(step);
  record_usage(step);
  if (step < prompt_) return;
  for (int head = 0; head < unit_.group_size(); ++head) {
    attention_.estimate(head, row, entries_);
    record_.add(head, step, attention_.measure());
  }
}

void EstimatorReplay::feed(int token, int step) {
  const bool is_stored = rules_.stored && token != step && step >= prompt_;
  const Unit& source = is_stored ? replayed_.stored(*rules_.stored).unit : unit_;
  estimator_->update(
      {token, row_of(source.key, token), row_of(source.value, token), free_vectors_});
  has_estimates_ = true;
}

void EstimatorReplay::collect_entries(int step) {
  const auto add_as_it_is = [&](int token) { entries_.push_back({token, true, 1, 1}); };
  entries_.clear();
  for (int token = 0; token < std::min(protected_first_, step + 1); ++token) add_as_it_is(token);
  if (has_estimates_) {
    const auto estimated = estimator_->entries();
    entries_.insert(entries_.end(), estimated.begin(), estimated.end());
  }
  for (int token = std::max(protected_first_, step + 1 - protected_newest_); token <= step;
       ++token) {
    add_as_it_is(token);
  }
}

void EstimatorReplay::record_usage(int step) {
  std::size_t keys = 0;
  std::size_t values = 0;
  for (const Entry& entry : entries_) {
    // Without room for one token, the newest is attended to by its own step but not in the cache.
    if (entry.token == step && free_vectors_ < kVectorsPerToken && protected_newest_ == 0 &&
        step >= protected_first_)
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

std::vector<Outcome> EstimatorReplay::finish() {
  const int last_step = unit_.num_tokens() - 1;
  usage_.evicted_after = std::move(last_held_);
  for (std::int32_t token = 0; token <= last_step; ++token) {
    std::int32_t& step = usage_.evicted_after[token];
    step = step == last_step ? unit_.num_tokens() : std::max({step, token, prompt_ - 1});
  }
  std::vector<Outcome> outcomes;
  outcomes.push_back(std::move(record_).finish(std::move(usage_), false));
  return outcomes;
}

}  // namespace kvsim
