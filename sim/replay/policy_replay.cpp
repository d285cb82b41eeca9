#include "sim/replay/policy_replay.h"

#include <algorithm>
#include <iterator>

#include "sim/attention/token_kinds.h"
#include "sim/kernels/score_kernels.h"
#include "sim/outputs/resident_attention.h"
#include "sim/replay/step_vectors.h"

namespace kvsim {
namespace {

std::size_t bytes_per_token(ReplayedUnit& replayed, const Rules& rules) {
  if (rules.stored) {
    const StoredUnit& stored = replayed.stored(*rules.stored);
    return stored.key_bytes + stored.value_bytes;
  }
  const Unit& unit = replayed.unit();
  return static_cast<std::size_t>(unit.key.cols() * unit.key_bytes +
                                  unit.value.cols() * unit.value_bytes);
}

}  // namespace

PolicyReplay::PolicyReplay(const Configuration& configuration,
                           std::span<const std::unique_ptr<ReplayedUnit>> units,
                           const ReplayOptions& options) {
  const Unit& first = units.front()->unit();
  prompt_ = first_measured(options.mode, first.prompt_length);
  interval_ = options.eviction_interval;
  const Context context = context_of(configuration, first, options);
  policy_ = configuration.policy.make(context);
  rules_ = configuration.policy.rules(context);
  const bool scores_on_arrival = rules_.score && rules_.score->kind == ScoreRule::Kind::newest;
  keeps_all_ = !rules_.bounded && !rules_.prunes;
  needs_attention_ = options.measuring.has_reference() || !(scores_on_arrival || keeps_all_);
  if (rules_.sees_kinds) kinds_ = token_kinds(first);
  for (std::size_t i = 0; i < units.size(); ++i) {
    const Unit& unit = units[i]->unit();
    if (i == 0 || unit.name.layer != units[i - 1]->unit().name.layer) {
      const int budget = configuration.budget_of(i);
      Context of_layer = context;
      of_layer.budget = budget;
      const Rules rules = configuration.policy.rules(of_layer);
      layers_.push_back({budget, Cache(unit.num_tokens(), budget, rules), {}});
    }
    layers_.back().members.push_back(make_member(*units[i], options));
  }
}

PolicyReplay::Member PolicyReplay::make_member(ReplayedUnit& unit,
                                               const ReplayOptions& options) const {
  UnitRecord record(unit.unit(), prompt_, options);
  if (!unit.has_reference()) {
    return {unit, std::make_unique<ResidentAttention>(unit), nullptr, std::move(record), nullptr,
            {}};
  }
  const bool is_shared = rules_.is_exact() && !rules_.selects;
  if (!is_shared) unit.require_outputs();
  auto attention = make_measured_attention(unit, rules_, prompt_);
  MeasuredAttention* const measured = attention.get();
  CacheContents* const contents = is_shared ? &unit.add_cache() : nullptr;
  return {unit, std::move(attention), measured, std::move(record), contents, {}};
}

void PolicyReplay::advance() {
  const AttentionBlock& block = layers_.front().members.front().replayed.block();
  for (Layer& layer : layers_) begin_block(layer, block);
  for (int row = 0; row < block.num_steps; ++row) {
    left_earlier_layers_.clear();
    for (Layer& layer : layers_) run_step(layer, block.first_step + row, row);
  }
  for (Layer& layer : layers_) {
    for (Member& member : layer.members) {
      if (member.contents != nullptr) member.contents->evictions = layer.cache.evictions();
    }
  }
}

void PolicyReplay::begin_block(Layer& layer, const AttentionBlock& block) {
  layer.cache.begin_block();
  for (Member& member : layer.members) {
    if (member.contents == nullptr) continue;
    const Unit& unit = member.replayed.unit();
    member.contents->reset(unit.num_tokens(), unit.group_size(), block.num_steps);
    for (const std::int32_t token : layer.cache.tokens()) member.contents->tokens.insert(token);
    member.contents->tokens.insert_range(block.first_step, block.first_step + block.num_steps);
    member.pending.clear();
  }
}

void PolicyReplay::measure() {
  for (Layer& layer : layers_) {
    for (Member& member : layer.members) {
      if (member.contents == nullptr) continue;
      member.record.add_block(member.replayed.block(), *member.contents, member.pending);
    }
  }
}

void PolicyReplay::run_step(Layer& layer, int step, int row) {
  if (step >= prompt_) layer.cache.remove(left_earlier_layers_, step - 1);
  layer.cache.admit(step);
  if (rules_.sees_full_attention) average_full_attention(layer, row);
  if (rules_.selects) {
    select(layer, step, row);
  } else {
    attend(layer, step, row, layer.cache.tokens());
    evict(layer, step);
  }
  if (!in_prompt(step)) {
    layer.peak_tokens = std::max(layer.peak_tokens, layer.cache.tokens().size());
  }
}

// Tokens that earlier layers evicted at this step leave this layer too. run_step() has removed them
// before the attention, except those that this layer still had to attend to: the step's own token,
// and at the end of a prompt all of them.
void PolicyReplay::evict(Layer& layer, int step) {
  Cache& cache = layer.cache;
  if (in_prompt(step) || keeps_all_) {
    update_scores(layer, step, attention_, 0);
    return;
  }
  const std::vector<std::int32_t> before(cache.tokens().begin(), cache.tokens().end());
  std::vector<std::int32_t> leaving;
  std::set_intersection(before.begin(), before.end(), left_earlier_layers_.begin(),
                        left_earlier_layers_.end(), std::back_inserter(leaving));
  const int overflow = cache.overflow(most_held(layer.budget, interval_, is_prompt_end(step)),
                                      static_cast<int>(leaving.size()));
  update_scores(layer, step, attention_, overflow);
  cache.remove(leaving, step);
  const bool may_prune = interval_ == 1 || is_prompt_end(step) || rules_.ignores_interval;
  if (overflow > 0 || may_prune) cache.evict(overflow, step);
  if (layers_.size() == 1) return;
  std::vector<std::int32_t> left;
  std::set_difference(before.begin(), before.end(), cache.tokens().begin(), cache.tokens().end(),
                      std::back_inserter(left));
  std::vector<std::int32_t> all;
  std::set_union(left_earlier_layers_.begin(), left_earlier_layers_.end(), left.begin(), left.end(),
                 std::back_inserter(all));
  left_earlier_layers_ = std::move(all);
}

void PolicyReplay::select(Layer& layer, int step, int row) {
  update_scores(layer, step, full_attention_, 0);
  if (step < prompt_) {
    attend(layer, step, row, layer.cache.tokens());
  } else {
    attend(layer, step, row, layer.cache.select(num_selected(layer, step)));
  }
}

// As many older tokens as a cache that evicts may hold before the step.
int PolicyReplay::num_selected(const Layer& layer, int step) const {
  if (interval_ != kNeverEvict) return most_held(layer.budget, interval_, false);
  return static_cast<int>(
      std::min<std::int64_t>(std::int64_t{layer.budget} + step - prompt_, step));
}

void PolicyReplay::update_scores(Layer& layer, int step, std::span<const float> attention,
                                 int overflow) {
  const auto tokens = layer.cache.tokens();
  resident_kinds_.clear();
  if (rules_.sees_kinds) {
    for (const std::int32_t token : tokens) resident_kinds_.push_back(kinds_[token]);
  }
  const Unit& unit = layer.members.front().replayed.unit();
  if (rules_.sees_queries) set_queries(unit, step, queries_);
  policy_->update(
      {.index = step,
       .tokens = tokens,
       .attention = attention,
       .full_attention = full_attention_,
       .keys = resident_vectors(unit.key, tokens),
       .values = rules_.sees_values ? resident_vectors(unit.value, tokens) : ResidentVectors(),
       .queries = queries_,
       .kinds = resident_kinds_,
       .overflow = overflow},
      layer.cache.scores());
}

void PolicyReplay::attend(Layer& layer, int step, int row, std::span<const std::int32_t> tokens) {
  attention_.clear();
  if (!needs_attention_) return;
  attention_.resize(tokens.size(), 0);
  for (Member& member : layer.members) {
    const int group_size = member.replayed.unit().group_size();
    const auto heads = static_cast<double>(group_size) * static_cast<double>(layer.members.size());
    for (int head = 0; head < group_size; ++head) {
      member.attention->attend(head, row, tokens);
      member.attention->add_to_mean(heads, attention_);
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

void PolicyReplay::average_full_attention(const Layer& layer, int row) {
  const auto tokens = layer.cache.tokens();
  full_attention_.assign(tokens.size(), 0);
  for (const Member& member : layer.members) {
    const auto heads = static_cast<double>(member.replayed.unit().group_size()) *
                       static_cast<double>(layer.members.size());
    for (const HeadAttention& head : member.replayed.block().heads) {
      const float* weight = head.weight.row(row).data();
      const float scale = attention_scale(head.weight_sum[row], heads);
      for (std::size_t slot = 0; slot < tokens.size(); ++slot) {
        full_attention_[slot] += weight[tokens[slot]] * scale;
      }
    }
  }
}

std::vector<Outcome> PolicyReplay::finish() {
  std::vector<Outcome> outcomes;
  for (Layer& layer : layers_) {
    for (Member& member : layer.members) {
      outcomes.push_back(std::move(member.record)
                             .finish({layer.cache.evicted_after(), layer.peak_tokens,
                                      layer.peak_tokens * bytes_per_token(member.replayed, rules_),
                                      layer.cache.num_ties()},
                                     rules_.is_exact()));
    }
  }
  return outcomes;
}

}  // namespace kvsim
