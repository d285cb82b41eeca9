#include "sim/core/policy_replay.h"

#include <algorithm>

namespace kvsim {
namespace {

std::unique_ptr<Policy> make_policy_for(const Unit& unit, const Configuration& configuration,
                                        const ReplayOptions& options) {
  return configuration.policy.make(
      {.budget = configuration.budget, .seed = unit_seed(options.seed, unit.name)});
}

}  // namespace

PolicyReplay::PolicyReplay(const Unit& unit, const Configuration& configuration,
                           const ReplayOptions& options)
    : unit_(unit),
      policy_(make_policy_for(unit, configuration, options)),
      rules_(policy_->rules()),
      budget_(configuration.budget),
      cache_(unit.num_tokens(), configuration.budget, rules_),
      cached_(unit),
      keep_trajectory_(options.trajectories),
      prompt_(options.mode == Mode::prefill ? unit.prompt_length : 0) {
  if (!keep_trajectory_) return;
  const int measured = unit.num_tokens() - prompt_;
  trajectory_.attention_recall.resize(unit.group_size(), measured);
  trajectory_.output_error.resize(unit.group_size(), measured);
}

void PolicyReplay::advance(const AttentionBlock& block) {
  for (int row = 0; row < block.num_steps; ++row) run_step(block, row);
}

void PolicyReplay::run_step(const AttentionBlock& block, int row) {
  const int step = block.first_step + row;
  cache_.admit(step);
  if (rules_.sees_full_attention) average_full_attention(block, row);
  if (rules_.selects) {
    select(block, row);
  } else {
    attend(block, row, cache_.tokens());
    const int overflow = in_prompt(step) ? 0 : cache_.overflow();
    update_scores(step, attention_, overflow);
    cache_.evict(overflow, step);
  }
  if (!in_prompt(step)) peak_tokens_ = std::max(peak_tokens_, cache_.tokens().size());
}

void PolicyReplay::select(const AttentionBlock& block, int row) {
  const int step = block.first_step + row;
  update_scores(step, full_attention_, 0);
  attend(block, row, step < prompt_ ? cache_.tokens() : cache_.select(budget_));
}

void PolicyReplay::update_scores(int step, std::span<const float> attention, int overflow) {
  const auto tokens = cache_.tokens();
  policy_->update({.index = step,
                   .tokens = tokens,
                   .attention = attention,
                   .full_attention = full_attention_,
                   .keys = {unit_.key.data(), static_cast<std::size_t>(unit_.key.cols()), tokens},
                   .overflow = overflow},
                  cache_.scores());
}

void PolicyReplay::attend(const AttentionBlock& block, int row,
                          std::span<const std::int32_t> tokens) {
  const int step = block.first_step + row;
  const auto group = static_cast<double>(unit_.group_size());
  attention_.assign(tokens.size(), 0);
  for (int head = 0; head < unit_.group_size(); ++head) {
    cached_.attend(block, head, row, tokens);
    for (std::size_t slot = 0; slot < tokens.size(); ++slot) {
      attention_[slot] += static_cast<float>(cached_.attention(slot) / group);
    }
    if (step >= prompt_) record(head, step, cached_.measure());
  }
}

void PolicyReplay::average_full_attention(const AttentionBlock& block, int row) {
  const auto tokens = cache_.tokens();
  full_attention_.assign(tokens.size(), 0);
  for (const HeadAttention& head : block.heads) {
    const float* weight = head.weight.row(row).data();
    const double sum = head.weight_sum[row] * unit_.group_size();
    for (std::size_t slot = 0; slot < tokens.size(); ++slot) {
      full_attention_[slot] += static_cast<float>(weight[tokens[slot]] / sum);
    }
  }
}

void PolicyReplay::record(int head, int step, const Measurement& measurement) {
  metrics_.add(measurement);
  if (!keep_trajectory_) return;
  const int column = step - prompt_;
  trajectory_.attention_recall(head, column) = static_cast<float>(1 - measurement.attention_loss);
  trajectory_.output_error(head, column) = static_cast<float>(measurement.error);
}

Outcome PolicyReplay::finish() && {
  Outcome outcome;
  Result& result = outcome.result;
  metrics_.summarize(result);
  result.steps = unit_.num_tokens() - prompt_;
  result.evictions = cache_.num_evictions();
  result.peak_tokens = static_cast<std::int64_t>(peak_tokens_);
  result.cache_bytes = result.peak_tokens * (unit_.key.cols() * unit_.key_bytes +
                                             unit_.value.cols() * unit_.value_bytes);
  if (keep_trajectory_) {
    outcome.trajectory = std::move(trajectory_);
    outcome.trajectory.evicted_after = cache_.evicted_after();
  }
  return outcome;
}

}  // namespace kvsim
