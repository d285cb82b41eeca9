#include "sim/core/evicting_replay.h"

#include <algorithm>

namespace kvsim {
namespace {

std::unique_ptr<Policy> make_policy_for(const Unit& unit, const Configuration& configuration,
                                        const ReplayOptions& options) {
  return configuration.policy.make(
      {.budget = configuration.budget, .seed = unit_seed(options.seed, unit.name)});
}

}  // namespace

EvictingReplay::EvictingReplay(const Unit& unit, const Configuration& configuration,
                               const ReplayOptions& options)
    : unit_(unit),
      policy_(make_policy_for(unit, configuration, options)),
      rules_(policy_->rules()),
      cache_(unit.num_tokens(), configuration.budget, rules_),
      cached_(unit),
      keep_trajectory_(options.trajectories),
      prompt_(options.mode == Mode::prefill ? unit.prompt_length : 0) {
  if (!keep_trajectory_) return;
  const int measured = unit.num_tokens() - prompt_;
  trajectory_.attention_recall.resize(unit.group_size(), measured);
  trajectory_.output_error.resize(unit.group_size(), measured);
}

void EvictingReplay::advance(const AttentionBlock& block) {
  for (int row = 0; row < block.num_steps; ++row) run_step(block, row);
}

void EvictingReplay::run_step(const AttentionBlock& block, int row) {
  const int step = block.first_step + row;
  cache_.admit(step);
  attend(block, row);
  const bool in_prompt = step + 1 < prompt_;
  const int overflow = in_prompt ? 0 : cache_.overflow();
  policy_->update({.index = step,
                   .tokens = cache_.tokens(),
                   .attention = attention_,
                   .full_attention = full_attention_,
                   .keys = {unit_.key.data(), static_cast<std::size_t>(unit_.key.cols()),
                            cache_.tokens()},
                   .overflow = overflow},
                  cache_.scores());
  cache_.evict(overflow, step);
  if (!in_prompt) peak_tokens_ = std::max(peak_tokens_, cache_.tokens().size());
}

void EvictingReplay::attend(const AttentionBlock& block, int row) {
  const auto tokens = cache_.tokens();
  const int step = block.first_step + row;
  const auto group = static_cast<double>(unit_.group_size());
  attention_.assign(tokens.size(), 0);
  if (rules_.sees_full_attention) full_attention_.assign(tokens.size(), 0);
  for (int head = 0; head < unit_.group_size(); ++head) {
    cached_.attend(block, head, row, tokens);
    for (std::size_t slot = 0; slot < tokens.size(); ++slot) {
      attention_[slot] += static_cast<float>(cached_.attention(slot) / group);
    }
    if (rules_.sees_full_attention) {
      const float* weight = block.heads[head].weight.row(row).data();
      const double sum = block.heads[head].weight_sum[row] * group;
      for (std::size_t slot = 0; slot < tokens.size(); ++slot) {
        full_attention_[slot] += static_cast<float>(weight[tokens[slot]] / sum);
      }
    }
    if (step >= prompt_) record(head, step, cached_.measure());
  }
}

void EvictingReplay::record(int head, int step, const Measurement& measurement) {
  metrics_.add(measurement);
  if (!keep_trajectory_) return;
  const int column = step - prompt_;
  trajectory_.attention_recall(head, column) = static_cast<float>(1 - measurement.attention_loss);
  trajectory_.output_error(head, column) = static_cast<float>(measurement.error);
}

Outcome EvictingReplay::finish() && {
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
