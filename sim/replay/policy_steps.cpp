#include "sim/replay/policy_steps.h"

#include <algorithm>
#include <iterator>

namespace kvsim {

bool reads_attention(const Rules& rules) {
  const bool keeps_all = !rules.bounded && !rules.prunes;
  return !keeps_all && !(rules.score && rules.score->kind == ScoreRule::Kind::newest);
}

PolicySteps::PolicySteps(const Spec& policy, std::span<const Context> contexts,
                         std::span<const int> budgets, const EvictionSteps& steps,
                         const std::vector<TokenKind>* kinds)
    : rules_(policy.rules(contexts.front())),
      steps_(steps),
      keeps_all_(!rules_.bounded && !rules_.prunes),
      kinds_(kinds) {
  const std::size_t scorers = rules_.joined ? contexts.size() : 1;
  for (const Context& context : contexts.first(scorers)) scorers_.push_back(policy.make(context));
  attention_.resize(scorers);
  full_attention_.resize(scorers);
  if (rules_.joined) head_scores_ = HeadScores(scorers, *rules_.joined);
  reads_attention_ = kvsim::reads_attention(rules_);
  for (const int budget : budgets) {
    Context of_layer = contexts.front();
    of_layer.budget = budget;
    const int tokens = policy.tokens_of(budget);
    const Paging& paging = steps.protocol().paging;
    layers_.push_back({tokens, Cache(steps.num_tokens(), tokens, policy.rules(of_layer), paging)});
  }
}

Cache& PolicySteps::begin_block(std::size_t layer) {
  layers_[layer].cache.begin_block();
  return layers_[layer].cache;
}

void PolicySteps::run(std::size_t layer, int step, StepSource& source) {
  Cache& cache = layers_[layer].cache;
  if (layer == 0) left_earlier_layers_.clear();
  if (step >= steps_.first_measured()) cache.remove(left_earlier_layers_, step - 1);
  cache.admit(step);
  if (rules_.sees_full_attention) {
    source.average_full_attention(layer, step, cache.tokens(), full_attention_);
  }
  if (rules_.selects) {
    select(layer, step, source);
  } else {
    source.attend(layer, step, cache.tokens(), attention_);
    evict(layer, step, source);
  }
  if (rules_.store) source.settle(layer, cache.tokens(), in_prompt(step));
  if (!in_prompt(step)) {
    const auto num_evicted = static_cast<std::size_t>(step) + 1 - cache.tokens().size();
    const std::size_t entries = rules_.keeps_evicted() ? num_evicted
                                : rules_.rest          ? std::min<std::size_t>(num_evicted, 1)
                                                       : 0;
    std::size_t& peak = layers_[layer].peak_tokens;
    peak = std::max(peak, cache.tokens().size() + entries);
  }
}

// Tokens that earlier layers evicted at this step leave this layer too. run() has removed them
// before the attention, except those that this layer still had to attend to: the step's own token,
// and at the end of a prompt all of them.
void PolicySteps::evict(std::size_t layer, int step, StepSource& source) {
  Cache& cache = layers_[layer].cache;
  if (in_prompt(step) || keeps_all_) {
    update_scores(layer, step, attention_, 0, source);
    return;
  }
  const std::vector<std::int32_t> before(cache.tokens().begin(), cache.tokens().end());
  std::vector<std::int32_t> leaving;
  std::set_intersection(before.begin(), before.end(), left_earlier_layers_.begin(),
                        left_earlier_layers_.end(), std::back_inserter(leaving));
  const int most = steps_.most_held(layers_[layer].budget, step);
  const int overflow = cache.overflow(most, static_cast<int>(leaving.size()));
  update_scores(layer, step, attention_, overflow, source);
  cache.remove(leaving, step);
  const bool may_prune = steps_.protocol().evicts_every_step() || steps_.is_prompt_end(step) ||
                         rules_.ignores_interval;
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

void PolicySteps::select(std::size_t layer, int step, StepSource& source) {
  const Cache& cache = layers_[layer].cache;
  update_scores(layer, step, full_attention_, 0, source);
  if (step < steps_.first_measured()) {
    source.attend(layer, step, cache.tokens(), attention_);
  } else {
    source.attend(layer, step, cache.select(steps_.most_attended(layers_[layer].budget, step)),
                  attention_);
  }
}

void PolicySteps::update_scores(std::size_t layer, int step,
                                std::span<const std::vector<float>> attention, int overflow,
                                const StepSource& source) {
  Cache& cache = layers_[layer].cache;
  resident_kinds_.clear();
  if (rules_.sees_kinds) {
    for (const std::int32_t token : cache.tokens()) resident_kinds_.push_back((*kinds_)[token]);
  }
  const auto update = [&](std::size_t head, std::span<double> scores) {
    const auto tokens = cache.tokens();
    if (rules_.sees_queries) source.set_queries(layer, head, step, queries_);
    scorers_[head]->update(
        {.index = step,
         .tokens = tokens,
         .attention = attention[head],
         .full_attention = full_attention_[head],
         .keys = source.keys(layer, head, tokens),
         .values = rules_.sees_values ? source.values(layer, head, tokens) : ResidentVectors(),
         .queries = queries_,
         .kinds = resident_kinds_,
         .selected = source.selected(layer, step),
         .overflow = overflow},
        scores);
  };
  if (!rules_.joined) return update(0, cache.scores());
  for (std::size_t head = 0; head < scorers_.size(); ++head) {
    update(head, head_scores_.take(head, cache.tokens()));
    head_scores_.store(head, cache.tokens());
  }
  head_scores_.join(cache);
}

}  // namespace kvsim
