#include "sim/replay/policy_replay.h"

#include "sim/attention/token_kinds.h"
#include "sim/kernels/score_kernels.h"
#include "sim/outputs/resident_attention.h"

namespace kvsim {

PolicyReplay::PolicyReplay(const Configuration& configuration,
                           std::span<const std::unique_ptr<ReplayedUnit>> units,
                           const ReplayOptions& options) {
  const Unit& first = units.front()->unit();
  prompt_ = first_measured(options.mode, first.prompt_length);
  std::vector<int> budgets;
  std::vector<std::vector<ReplayedUnit*>> layers;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (i == 0 || units[i]->unit().name.layer != units[i - 1]->unit().name.layer) {
      budgets.push_back(configuration.budget_of(i));
      layers.emplace_back();
    }
    layers.back().push_back(units[i].get());
  }
  const Context context = context_of(configuration, first, options);
  if (configuration.policy.rules(context).sees_kinds) kinds_ = token_kinds(first);
  steps_.emplace(configuration.policy, context, budgets, first.num_tokens(),
                 Protocol{prompt_, options.eviction_interval}, &kinds_);
  needs_attention_ = options.measuring.has_reference() || steps_->reads_attention();
  for (const std::vector<ReplayedUnit*>& members : layers) {
    layers_.emplace_back();
    for (ReplayedUnit* member : members) layers_.back().push_back(make_member(*member, options));
  }
}

PolicyReplay::Member PolicyReplay::make_member(ReplayedUnit& unit,
                                               const ReplayOptions& options) const {
  UnitRecord record(unit.unit(), prompt_, options);
  if (!unit.has_reference()) {
    return {unit, std::make_unique<ResidentAttention>(unit), nullptr, std::move(record), nullptr,
            {}};
  }
  const Rules& rules = steps_->rules();
  const bool is_shared = rules.is_exact() && !rules.selects;
  if (!is_shared) unit.require_outputs();
  auto attention = make_measured_attention(unit, rules, prompt_);
  MeasuredAttention* const measured = attention.get();
  CacheContents* const contents = is_shared ? &unit.add_cache() : nullptr;
  return {unit, std::move(attention), measured, std::move(record), contents, {}};
}

void PolicyReplay::advance() {
  const AttentionBlock& block = this->block();
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) begin_block(layer, block);
  for (int row = 0; row < block.num_steps; ++row) {
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      steps_->run(layer, block.first_step + row, *this);
    }
  }
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    for (Member& member : layers_[layer]) {
      if (member.contents != nullptr) member.contents->evictions = steps_->cache(layer).evictions();
    }
  }
}

void PolicyReplay::begin_block(std::size_t layer, const AttentionBlock& block) {
  const Cache& cache = steps_->begin_block(layer);
  for (Member& member : layers_[layer]) {
    if (member.contents == nullptr) continue;
    const Unit& unit = member.replayed.unit();
    member.contents->reset(unit.num_tokens(), unit.group_size(), block.num_steps);
    for (const std::int32_t token : cache.tokens()) member.contents->tokens.insert(token);
    member.contents->tokens.insert_range(block.first_step, block.first_step + block.num_steps);
    member.pending.clear();
  }
}

void PolicyReplay::measure() {
  for (Layer& layer : layers_) {
    for (Member& member : layer) {
      if (member.contents == nullptr) continue;
      member.record.add_block(member.replayed.block(), *member.contents, member.pending);
    }
  }
}

void PolicyReplay::attend(std::size_t layer, int step, std::span<const std::int32_t> tokens,
                          std::vector<float>& mean) {
  mean.clear();
  if (!needs_attention_) return;
  mean.resize(tokens.size(), 0);
  const int row = step - block().first_step;
  Layer& members = layers_[layer];
  for (Member& member : members) {
    const int group_size = member.replayed.unit().group_size();
    const auto heads = static_cast<double>(group_size) * static_cast<double>(members.size());
    if (steps_->rules().selects) member.record.add_selected(step, tokens);
    for (int head = 0; head < group_size; ++head) {
      member.attention->attend(head, row, tokens);
      member.attention->add_to_mean(heads, mean);
      if (step < prompt_ || member.measured == nullptr) continue;
      if (member.contents == nullptr) {
        member.record.add(head, step, member.measured->measure());
      } else {
        member.pending.push_back(member.measured->measure_recall());
        member.measured->record(*member.contents);
      }
    }
  }
}

void PolicyReplay::average_full_attention(std::size_t layer, int step,
                                          std::span<const std::int32_t> tokens,
                                          std::vector<float>& mean) {
  mean.assign(tokens.size(), 0);
  const int row = step - block().first_step;
  const Layer& members = layers_[layer];
  for (const Member& member : members) {
    const auto heads = static_cast<double>(member.replayed.unit().group_size()) *
                       static_cast<double>(members.size());
    for (const HeadAttention& head : member.replayed.block().heads) {
      const float* weight = head.weight.row(row).data();
      const float scale = attention_scale(head.weight_sum[row], heads);
      for (std::size_t slot = 0; slot < tokens.size(); ++slot) {
        mean[slot] += weight[tokens[slot]] * scale;
      }
    }
  }
}

const Unit& PolicyReplay::unit(std::size_t layer) const {
  return layers_[layer].front().replayed.unit();
}

std::vector<Outcome> PolicyReplay::finish() {
  std::vector<Outcome> outcomes;
  const Rules& rules = steps_->rules();
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    const Cache& cache = steps_->cache(layer);
    const std::size_t peak = steps_->peak_tokens(layer);
    for (Member& member : layers_[layer]) {
      outcomes.push_back(
          std::move(member.record)
              .finish({cache.evicted_after(), peak, peak * member.replayed.bytes_per_token(rules),
                       cache.num_ties()},
                      rules.is_exact()));
    }
  }
  return outcomes;
}

}  // namespace kvsim
