#include "tests/support/coupled_reference.h"

namespace kvsim::test_support {

CoupledReference::CoupledReference(const std::vector<Unit>& units, const std::vector<int>& budgets,
                                   Mode mode, Coupling coupling, const std::vector<Outcome>& other)
    : coupling_(coupling), other_(other) {
  for (std::size_t i = 0; i < units.size(); ++i) {
    records.emplace_back(references_.emplace_back(units[i]), mode);
    Layer& layer = layers_[units[i].name.layer];
    layer.budget = budgets[i];
    layer.members.push_back(i);
  }
  for (int t = 0; t < units.front().num_tokens(); ++t) {
    left_.clear();
    for (auto& [index, layer] : layers_) run_step(layer, t);
  }
}

void CoupledReference::run_step(Layer& layer, int t) {
  if (coupling_ == Coupling::layer) left_.clear();
  // A token that an earlier layer evicted leaves this one before it attends, except the step's own
  // token and, during a prompt, all tokens.
  const bool attends_in_full = !records.front().is_measured(t);
  for (const int token : left_) {
    if (token != t && !attends_in_full) leave(layer, token, t - 1);
  }
  layer.tokens.push_back(t);
  attend(layer, t);
  for (const int token : left_) leave(layer, token, t);
  while (records.front().may_evict(t) && static_cast<int>(layer.tokens.size()) > layer.budget) {
    std::map<int, double> candidates;
    for (const int token : layer.tokens) candidates[token] = scores_[token];
    const Evictions& others = other_[layer.members.front()].trajectory.evicted_after;
    const int victim = first_to_leave(candidates, t, others, followed);
    leave(layer, victim, t);
    left_.insert(victim);
  }
}

// Scores are the mean attention of all query heads of the layer: that of this step, or the sum over
// all layers and steps.
void CoupledReference::attend(const Layer& layer, int t) {
  if (coupling_ == Coupling::layer) scores_.clear();
  for (const std::size_t member : layer.members) {
    const ReferenceUnit& unit = references_[member];
    const auto sharers = static_cast<double>(unit.heads.size() * layer.members.size());
    for (std::size_t head = 0; head < unit.heads.size(); ++head) {
      const std::vector<double> attention = softmax(
          unit.heads[head].logit[static_cast<std::size_t>(t)], layer.tokens, unit.heads[head].sink);
      records[member].measure(static_cast<int>(head), t, layer.tokens,
                              weighted_value(unit.unit, layer.tokens, attention));
      for (std::size_t i = 0; i < attention.size(); ++i) {
        scores_[layer.tokens[i]] += attention[i] / sharers;
      }
    }
  }
}

void CoupledReference::leave(Layer& layer, int token, int after) {
  if (std::erase(layer.tokens, token) == 0) return;
  for (const std::size_t unit : layer.members) {
    records[unit].evicted_after[static_cast<std::size_t>(token)] = after;
  }
}

}  // namespace kvsim::test_support
