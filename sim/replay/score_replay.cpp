#include "sim/replay/score_replay.h"

#include <algorithm>
#include <limits>

#include "sim/kernels/score_kernels.h"
#include "sim/kernels/tolerances.h"
#include "sim/outputs/step_attention.h"
#include "sim/replay/arrival_score.h"

namespace kvsim {

bool ScoreReplay::can_replay(const Rules& rules) {
  return rules.score && !rules.score->needs_history() && rules.scope == Scope::head &&
         rules.is_exact() && rules.bounded && !rules.selects && !rules.prunes && rules.drop == 1;
}

bool ScoreReplay::gathers(const Rules& rules) {
  return can_replay(rules) && rules.score->reads_attention();
}

ScoreReplay::ScoreReplay(const Configuration& configuration, ReplayedUnit& unit,
                         const ReplayOptions& options)
    : replayed_(unit),
      rules_(configuration.policy.rules(context_of(configuration, unit.unit(), options))),
      policy_(configuration.policy.make(context_of(configuration, unit.unit(), options))),
      steps_(unit.unit().num_tokens(), unit.unit().prompt_length, options.protocol),
      budget_(configuration.budget),
      cache_(unit.unit().num_tokens(), configuration.budget, rules_, options.protocol.paging),
      record_(unit.unit(), options),
      contents_(unit.add_cache()),
      gathered_(unit.scratch()) {}

void ScoreReplay::advance() {
  const AttentionBlock& block = replayed_.block();
  begin_block(block);
  for (int row = 0; row < block.num_steps; ++row) run_step(block, row);
  contents_.evictions = cache_.evictions();
}

void ScoreReplay::begin_block(const AttentionBlock& block) {
  cache_.begin_block(block.first_step, block.num_steps);
  const auto num_heads = static_cast<int>(block.heads.size());
  contents_.reset(replayed_.unit().num_tokens(), num_heads, block.num_steps);
  contents_.tokens = cache_.held();
  contents_.tokens.insert_range(block.first_step, block.first_step + block.num_steps);
  pending_.clear();
  sum_kept_weights(block);
  if (cache_.slots_are_tokens() || !gathers(rules_)) return;
  const auto slots = cache_.block_slots();
  for (int head = 0; head < num_heads; ++head) {
    gathered_[head].resize(kBlockSteps, (slots.size() + 15) / 16 * 16);
    gather_rows(block.heads[head].weight_by_token, slots, gathered_[head]);
  }
}

void ScoreReplay::sum_kept_weights(const AttentionBlock& block) {
  const int missing = block.first_step - cache_.num_held();
  const bool over_missing = missing < cache_.num_held();
  kept_weight_sums_.setZero(static_cast<int>(block.heads.size()), kBlockSteps);
  tokens_to_sum_.clear();
  for_each_token_of(contents_.tokens, block.first_step + block.num_steps, !over_missing,
                    [&](std::int32_t token) { tokens_to_sum_.push_back(token); });
  for (int index = 0; index < kept_weight_sums_.rows(); ++index) {
    const HeadAttention& head = block.heads[index];
    double* kept = kept_weight_sums_.row(index).data();
    const std::vector<double>& from = over_missing ? head.weight_sum : head.sink_weight;
    std::copy(from.begin(), from.end(), kept);
    add_rows(head.weight_by_token, tokens_to_sum_, over_missing ? -1 : 1, kept);
  }
}

void ScoreReplay::run_step(const AttentionBlock& block, int row) {
  const int step = block.first_step + row;
  cache_.admit();
  const bool is_missing = is_missing_any(step);
  for (int head = 0; head < kept_weight_sums_.rows(); ++head) {
    contents_.weight_sum(head, row) = kept_weight_sums_(head, row);
    if (is_missing && kept_weight_sums_(head, row) < kMinWeightSum) rescale(block, head, row);
    if (step < steps_.first_measured()) continue;
    Measurement& measurement = pending_.emplace_back();
    measurement.accesses = block.heads[head].num_pivotal[row];
    if (is_missing) record_loss(block, head, row);
  }
  const int most = steps_.most_held(budget_, step);
  const bool evicts = step >= steps_.first_eviction() && cache_.num_held() > most;
  if (evicts || rules_.score->reads_score()) score(block, row);
  if (evicts) evict(block, row, most);
  if (step >= steps_.first_eviction()) {
    peak_tokens_ = std::max(peak_tokens_, static_cast<std::size_t>(cache_.num_held()));
  }
}

// Tokens that the step does not see have no weight and cannot be missing.
bool ScoreReplay::is_missing_any(int step) const {
  if (cache_.num_held() == step + 1) return false;
  const Unit& unit = replayed_.unit();
  const int begin = first_visible(unit, step);
  if (unit.selected) {
    return std::ranges::any_of(unit.selected->at(step), [&](std::int32_t token) {
      return token >= begin && !cache_.held().contains(token);
    });
  }
  if (begin == 0) return true;
  bool is_missing = false;
  for (int token = begin; token <= step && !is_missing; ++token) {
    is_missing = !cache_.held().contains(token);
  }
  return is_missing;
}

void ScoreReplay::record_loss(const AttentionBlock& block, int head, int row) {
  const HeadAttention& full = block.heads[head];
  Measurement& measurement = pending_.back();
  const int hits = count_common(full.pivotal[row], cache_.held().words());
  measurement.misses = measurement.accesses - hits;
  const double sum = full.weight_sum[row];
  measurement.attention_loss = std::clamp((sum - kept_weight_sums_(head, row)) / sum, 0.0, 1.0);
  if (!replayed_.takes_error(block.first_step + row)) return;
  contents_.difference(head, row) = std::numeric_limits<double>::quiet_NaN();
}

std::span<const float> ScoreReplay::weights(const AttentionBlock& block, int head, int row) const {
  const float* from = cache_.slots_are_tokens() ? block.heads[head].weight.row(row).data()
                                                : gathered_[head].row(row);
  return {from, cache_.tokens().size()};
}

void ScoreReplay::rescale(const AttentionBlock& block, int head, int row) {
  RescaledStep& rescaled = contents_.rescaled.emplace_back();
  rescaled.head = head;
  rescaled.row = row;
  const int step = block.first_step + row;
  for_each_token_of(cache_.held(), step + 1, true,
                    [&](auto token) { rescaled.tokens.push_back(token); });
  rescale_weights(replayed_.unit(), block.heads[head].logit.row(row).data(), step, rescaled);
}

// Slots of evicted tokens get weight 0.
void ScoreReplay::set_rescaled_weights(const RescaledStep& rescaled,
                                       std::span<const std::int32_t> tokens) {
  rescaled_weights_.assign(tokens.size(), 0);
  std::size_t next = 0;
  for (std::size_t slot = 0; slot < tokens.size() && next < rescaled.tokens.size(); ++slot) {
    if (tokens[slot] == rescaled.tokens[next]) rescaled_weights_[slot] = rescaled.weight[next++];
  }
}

void ScoreReplay::score(const AttentionBlock& block, int row) {
  const int step = block.first_step + row;
  if (rules_.score->kind == ScoreRule::Kind::newest) {
    cache_.newest_score().front() = arrival_score(*policy_, replayed_.unit(), step);
    return;
  }
  const bool full = rules_.sees_full_attention;
  const ScoredStep scored{step, static_cast<std::size_t>(full ? step + 1 : cache_.num_held())};
  if (!rules_.score->reads_attention()) {
    cache_.score(scored, {}, 1);
    return;
  }
  if (kept_weight_sums_.rows() == 1) {
    const SlotAttention given = attention_of(block, 0, row);
    cache_.score(scored, given.weight, given.scale);
    return;
  }
  attention_.resize(cache_.tokens().size());
  for (int head = 0; head < kept_weight_sums_.rows(); ++head) {
    const SlotAttention given = attention_of(block, head, row);
    const auto add = head == 0 ? set_attention : add_attention;
    add(given.weight, given.scale, attention_.data());
  }
  cache_.score(scored, attention_, 1);
}

ScoreReplay::SlotAttention ScoreReplay::attention_of(const AttentionBlock& block, int head,
                                                     int row) {
  const bool full = rules_.sees_full_attention;
  const RescaledStep* rescaled = full ? nullptr : contents_.find_rescaled(head, row);
  const auto num_heads = static_cast<double>(kept_weight_sums_.rows());
  if (rescaled != nullptr) {
    set_rescaled_weights(*rescaled, cache_.tokens());
    return {rescaled_weights_, attention_scale(rescaled->weight_sum, num_heads)};
  }
  const double sum = full ? block.heads[head].weight_sum[row] : kept_weight_sums_(head, row);
  return {weights(block, head, row), attention_scale(sum, num_heads)};
}

void ScoreReplay::evict(const AttentionBlock& block, int row, int most) {
  const std::size_t before = cache_.evictions().size();
  cache_.evict(block.first_step + row, most);
  for (std::size_t i = before; i < cache_.evictions().size(); ++i) {
    const std::int32_t token = cache_.evictions()[i].token;
    // Of all steps, although those up to `row` are not read again.
    for (int head = 0; head < kept_weight_sums_.rows(); ++head) {
      add_rows(block.heads[head].weight_by_token, {&token, 1}, -1,
               kept_weight_sums_.row(head).data());
    }
  }
}

void ScoreReplay::measure() { record_.add_block(replayed_, contents_, pending_); }

std::vector<Outcome> ScoreReplay::finish() {
  const Unit& unit = replayed_.unit();
  const auto bytes_per_token = static_cast<std::size_t>(unit.key.cols() * unit.key_bytes +
                                                        unit.value.cols() * unit.value_bytes);
  std::vector<Outcome> outcomes;
  outcomes.push_back(std::move(record_).finish(
      {cache_.evicted_after(), peak_tokens_, peak_tokens_ * bytes_per_token, cache_.num_ties()},
      true));
  return outcomes;
}

}  // namespace kvsim
