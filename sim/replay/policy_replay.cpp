#include "sim/replay/policy_replay.h"

#include "sim/attention/token_kinds.h"
#include "sim/base/interrupt.h"
#include "sim/kernels/score_kernels.h"
#include "sim/replay/step_vectors.h"

namespace kvsim {

PolicyReplay::PolicyReplay(const Configuration& configuration,
                           std::span<const std::unique_ptr<ReplayedUnit>> units,
                           const ReplayOptions& options) {
  const Unit& first = units.front()->unit();
  prompt_ = options.protocol.first_measured(first.prompt_length);
  std::vector<int> budgets;
  std::vector<std::vector<ReplayedUnit*>> layers;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (i == 0 || units[i]->unit().name.layer != units[i - 1]->unit().name.layer) {
      layers.emplace_back();
    }
    layers.back().push_back(units[i].get());
  }
  std::size_t begin = 0;
  for (const std::vector<ReplayedUnit*>& members : layers) {
    budgets.push_back(configuration.shared_budget(begin, members.size()));
    begin += members.size();
  }
  std::vector<Context> contexts;
  for (std::size_t i = 0; i < layers.front().size(); ++i) {
    contexts.push_back(context_of(configuration, layers.front()[i]->unit(), options, i));
  }
  if (configuration.policy.rules(contexts.front()).sees_kinds) kinds_ = token_kinds(first);
  const EvictionSteps evictions(first.num_tokens(), first.prompt_length, options.protocol);
  steps_.emplace(configuration.policy, contexts, budgets, evictions, &kinds_);
  reads_mean_ = options.protocol.has_reference() || steps_->reads_attention();
  for (const std::vector<ReplayedUnit*>& members : layers) {
    layers_.emplace_back();
    for (ReplayedUnit* member : members) layers_.back().push_back(make_member(*member, options));
  }
}

PolicyReplay::Member PolicyReplay::make_member(ReplayedUnit& unit,
                                               const ReplayOptions& options) const {
  const Rules& rules = steps_->rules();
  const Protocol& protocol = options.protocol;
  Member member{
      unit, nullptr, nullptr, UnitRecord(unit.unit(), options), nullptr, OutputDeltas(unit.unit()),
      {}};
  if (!protocol.has_reference()) {
    member.resident = std::make_unique<ResidentAttention>(unit, rules);
  }
  if (protocol.measures()) {
    member.measured = make_measured_attention(unit, rules, prompt_, options.seed);
  }
  if (!protocol.has_reference()) return member;
  if (rules.is_exact() && !rules.selects) {
    member.contents = &unit.add_cache();
  } else {
    unit.require_outputs();
  }
  return member;
}

void PolicyReplay::advance() {
  const AttentionBlock& block = this->block();
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) begin_block(layer, block);
  for (int row = 0; row < block.num_steps; ++row) {
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      poll_interrupt();
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
    member.pending.clear();
    member.deltas.reset();
    if (member.contents == nullptr) continue;
    const Unit& unit = member.replayed.unit();
    member.contents->reset(unit.num_tokens(), unit.group_size(), block.num_steps);
    for (const std::int32_t token : cache.tokens()) member.contents->tokens.insert(token);
    member.contents->tokens.insert_range(block.first_step, block.first_step + block.num_steps);
  }
}

void PolicyReplay::measure() {
  for (Layer& layer : layers_) {
    for (Member& member : layer) {
      if (member.measured == nullptr) continue;
      if (member.contents == nullptr) {
        member.record.add_block(member.replayed, member.deltas, member.pending);
      } else {
        member.record.add_block(member.replayed, *member.contents, member.pending);
      }
    }
  }
}

std::vector<const OutputDeltas*> PolicyReplay::deltas() const {
  std::vector<const OutputDeltas*> of_units;
  for (const Layer& layer : layers_) {
    for (const Member& member : layer) {
      of_units.push_back(member.contents == nullptr ? &member.deltas : &member.contents->deltas);
    }
  }
  return of_units;
}

void PolicyReplay::attend(std::size_t layer, int step, std::span<const std::int32_t> tokens,
                          std::span<std::vector<float>> means) {
  for (std::vector<float>& mean : means) mean.assign(reads_mean_ ? tokens.size() : 0, 0);
  const int row = step - block().first_step;
  Layer& members = layers_[layer];
  for (std::size_t m = 0; m < members.size(); ++m) {
    Member& member = members[m];
    std::vector<float>& mean = mean_of(means, m);
    const int group_size = member.replayed.unit().group_size();
    const double heads = num_averaged(member.replayed.unit(), members.size(), means);
    const bool is_measured = member.replayed.steps().measures(step);
    if (steps_->rules().selects) member.record.add_selected(step, tokens);
    if (member.resident != nullptr && member.resident->keeps_vectors()) {
      member.resident->hold(tokens);
    }
    if (member.resident == nullptr || is_measured) member.measured->gather(row, tokens);
    for (int head = 0; head < group_size; ++head) {
      if (member.resident != nullptr && reads_mean_) {
        member.resident->attend(head, row, tokens);
        member.resident->add_to_mean(heads, mean);
      }
      if (member.resident != nullptr && !is_measured) continue;
      member.measured->attend(head, row, tokens);
      if (member.resident == nullptr) member.measured->add_to_mean(heads, mean);
      if (is_measured) measure(member);
    }
  }
}

// The step that member.measured has attended at.
void PolicyReplay::measure(Member& member) {
  if (member.contents == nullptr) {
    member.pending.push_back(member.measured->measure(member.deltas));
  } else {
    member.pending.push_back(member.measured->measure_recall());
    member.measured->record(*member.contents);
  }
}

void PolicyReplay::settle(std::size_t layer, std::span<const std::int32_t> held, bool is_whole) {
  for (Member& member : layers_[layer]) member.measured->settle(held, is_whole);
}

void PolicyReplay::average_full_attention(std::size_t layer, int step,
                                          std::span<const std::int32_t> tokens,
                                          std::span<std::vector<float>> means) {
  for (std::vector<float>& mean : means) mean.assign(tokens.size(), 0);
  const int row = step - block().first_step;
  const Layer& members = layers_[layer];
  for (std::size_t m = 0; m < members.size(); ++m) {
    std::vector<float>& mean = mean_of(means, m);
    const double heads = num_averaged(members[m].replayed.unit(), members.size(), means);
    for (const HeadAttention& head : members[m].replayed.block().heads) {
      const float* weight = head.weight.row(row).data();
      const float scale = attention_scale(head.weight_sum[row], heads);
      for (std::size_t slot = 0; slot < tokens.size(); ++slot) {
        mean[slot] += weight[tokens[slot]] * scale;
      }
    }
  }
}

ResidentVectors PolicyReplay::keys(std::size_t layer, std::size_t head,
                                   std::span<const std::int32_t> tokens) const {
  const Member& member = layers_[layer][head];
  const Unit& unit = member.replayed.unit();
  return unit.rows ? member.resident->keys() : resident_vectors(unit.key, tokens);
}

ResidentVectors PolicyReplay::values(std::size_t layer, std::size_t head,
                                     std::span<const std::int32_t> tokens) const {
  const Member& member = layers_[layer][head];
  const Unit& unit = member.replayed.unit();
  return unit.rows ? member.resident->values() : resident_vectors(unit.value, tokens);
}

std::span<const std::int32_t> PolicyReplay::selected(std::size_t layer, int step) const {
  return selected_at(layers_[layer].front().replayed.unit(), step);
}

void PolicyReplay::set_queries(std::size_t layer, std::size_t head, int step,
                               std::vector<std::span<const float>>& queries) const {
  const ReplayedUnit& unit = layers_[layer][head].replayed;
  queries.clear();
  for (int query = 0; query < unit.unit().group_size(); ++query) {
    queries.emplace_back(unit.query(query, step), static_cast<std::size_t>(unit.unit().key.cols()));
  }
}

std::vector<Outcome> PolicyReplay::finish() {
  std::vector<Outcome> outcomes;
  const Rules& rules = steps_->rules();
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    const Cache& cache = steps_->cache(layer);
    const std::size_t peak = steps_->peak_tokens(layer);
    for (Member& member : layers_[layer]) {
      const auto stored = member.measured ? member.measured->peak_bytes() : std::nullopt;
      const std::size_t bytes = stored.value_or(peak * member.replayed.bytes_per_token(rules));
      outcomes.push_back(
          std::move(member.record)
              .finish({cache.evicted_after(), peak, bytes, cache.num_ties()}, rules.is_exact()));
    }
  }
  return outcomes;
}

}  // namespace kvsim
