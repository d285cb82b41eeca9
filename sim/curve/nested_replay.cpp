#include "sim/curve/nested_replay.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "sim/attention/token_kinds.h"
#include "sim/kernels/curve_kernels.h"
#include "sim/kernels/score_kernels.h"
#include "sim/protocol/budget.h"
#include "sim/replay/step_vectors.h"

namespace kvsim {
namespace {

/// The largest float weight that is not pivotal at this step, to compare weights in fp32.
float largest_not_pivotal(double weight_sum, int step) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  auto weight = static_cast<float>(weight_sum / (step + 1));
  while (is_pivotal(weight, weight_sum, step)) weight = std::nextafter(weight, -kInfinity);
  for (float next = weight; !is_pivotal(next, weight_sum, step);
       next = std::nextafter(next, kInfinity)) {
    weight = next;
  }
  return weight;
}

// The policy sees all tokens at every step, as with a budget of the whole text.
Context context_of(const Unit& unit, const CurveOptions& options) {
  return kvsim::context_of(unit, unit.num_tokens(), options.seed);
}

}  // namespace

NestedReplay::NestedReplay(const Spec& policy, const Unit& unit, const MeanCentredValues* values,
                           const CurveOptions& options)
    : unit_(unit),
      paging_(options.protocol.paging),
      prompt_(options.protocol.first_measured(unit.prompt_length)),
      policy_(policy.make(context_of(unit, options))),
      rules_(policy.rules(context_of(unit, options))),
      stack_(unit.num_tokens(), rules_, paging_),
      tokens_(unit.num_tokens()),
      attention_(paging_.pages_for(unit.num_tokens()) * paging_.size, 0),
      pivotal_(attention_.size(), 0),
      errors_(unit, values, options.error_budgets, prompt_, paging_) {
  curve_.budgets = every_budget(options.protocol, unit.num_tokens());
  std::iota(tokens_.begin(), tokens_.end(), 0);
  if (rules_.sees_kinds) kinds_ = token_kinds(unit);
  if (options.schedules) {
    place_.assign(tokens_.size(), 0);
    curve_.evicted_after.assign(curve_.budgets.size(),
                                std::vector<std::int32_t>(tokens_.size(), unit.num_tokens()));
  }
}

void NestedReplay::advance(const AttentionBlock& block, int row,
                           std::span<const float> full_attention) {
  const int step = block.first_step + row;
  if (step >= prompt_) measure(block, row, step);
  scores_.push_back(0);
  update_scores(step, full_attention);
  if (step + 1 < prompt_) return;
  if (step + 1 == prompt_) {
    stack_.fill(scores_);
  } else {
    stack_.push(scores_);
  }
  if (!place_.empty()) record_evictions(step);
}

void NestedReplay::measure(const AttentionBlock& block, int row, int step) {
  const std::span<const std::int32_t> order = stack_.order();
  const int place = stack_.first_place();
  weight_.resize(order.size());
  for (std::size_t index = 0; index < block.heads.size(); ++index) {
    const HeadAttention& head = block.heads[index];
    const double sum = head.weight_sum[row];
    add_in_order(head.weight.row(row).data(), order, 1 / sum, largest_not_pivotal(sum, step),
                 weight_.data(), attention_.data() + place, pivotal_.data() + place);
    curve_.token_accesses += head.num_pivotal[row];
    errors_.add(block, row, static_cast<int>(index), {place, order, weight_});
  }
  ++curve_.steps;
}

void NestedReplay::update_scores(int step, std::span<const float> full_attention) {
  const auto count = static_cast<std::size_t>(step) + 1;
  const auto tokens = std::span<const std::int32_t>(tokens_).first(count);
  // As in ScoreReplay, kernels score in place of a policy with a score rule.
  if (rules_.score && rules_.score->kind != ScoreRule::Kind::newest &&
      !rules_.score->needs_history()) {
    kvsim::update_scores(*rules_.score, {step, count}, {tokens, full_attention, 1, scores_}, 0,
                         count);
    return;
  }
  if (rules_.sees_queries) set_queries(unit_, step, queries_);
  policy_->update(
      {.index = step,
       .tokens = tokens,
       .attention = full_attention,
       .full_attention = full_attention,
       .keys = resident_vectors(unit_.key, tokens),
       .values = rules_.sees_values ? resident_vectors(unit_.value, tokens) : ResidentVectors(),
       .queries = queries_,
       .kinds = std::span<const TokenKind>(kinds_).first(kinds_.empty() ? 0 : count),
       .selected = selected_at(unit_, step),
       .overflow = overflow(step)},
      scores_);
}

// That of the smallest cache: at overflow 0 a policy may leave the scores unset.
int NestedReplay::overflow(int step) const {
  if (step + 1 < prompt_) return 0;
  if (stack_.order().empty()) return step / paging_.size * paging_.size;
  return step % paging_.size == 0 ? paging_.size : 0;
}

// A page that moves to a later place leaves the caches whose budgets end between the two places.
void NestedReplay::record_evictions(int step) {
  const int least = curve_.budgets.front() / paging_.size;
  int at = stack_.first_place();
  for (const std::int32_t token : stack_.order()) {
    const std::int32_t place = 1 + at++ / paging_.size;
    const std::int32_t before = place_[token];
    for (std::int32_t pages = std::max(before, least); pages < place; ++pages) {
      curve_.evicted_after[pages - least][token] = step;
    }
    place_[token] = place;
  }
}

Curve NestedReplay::finish() && {
  const double count = static_cast<double>(curve_.steps) * unit_.group_size();
  curve_.attention_loss.resize(curve_.budgets.size());
  curve_.token_misses.resize(curve_.budgets.size());
  double attention = 0;
  std::int64_t misses = 0;
  std::size_t place = attention_.size();
  for (std::size_t i = curve_.budgets.size(); i > 0; --i) {
    while (place > static_cast<std::size_t>(curve_.budgets[i - 1])) {
      --place;
      attention += attention_[place];
      misses += pivotal_[place];
    }
    curve_.attention_loss[i - 1] = attention / count;
    curve_.token_misses[i - 1] = misses;
  }
  curve_.output_error = std::move(errors_).finish(static_cast<std::size_t>(count));
  return std::move(curve_);
}

}  // namespace kvsim
