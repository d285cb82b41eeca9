#include "sim/summary/layer_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvsim {

LayerValues::LayerValues(const SweepPlan& plan, const Units& units, const ResultStore& store)
    : plan_(plan),
      layers_(layers_of(plan, units)),
      bootstrap_(bootstrap_of(layers_)),
      num_units_(units.size()) {
  for (const Layer& layer : layers_) {
    num_layers_.resize(std::max(num_layers_.size(), layer.sequence + 1));
    ++num_layers_[layer.sequence];
  }
  if (layers_.empty()) return;
  for (const Spec& policy : plan.request.policies) {
    for (const LayerErrorRow& read : store.policy_layer_errors(policy.text())) {
      const Result& row = read.row;
      if (row.mode != plan.mode() || row.seed != plan.request.seed) continue;
      has_predicted_kl_ = has_predicted_kl_ || read.error.predicted_kl;
      if (!read.error.projected_error) continue;
      projected_errors_[{row.trace_id, row.sequence, row.layer, row.policy, row.budget}] =
          *read.error.projected_error;
    }
  }
}

std::vector<std::string> LayerValues::columns() const {
  std::vector<std::string> names;
  if (!projected_errors_.empty()) names.emplace_back("projected");
  if (has_predicted_kl_) names.emplace_back("nats");
  return names;
}

std::string LayerValues::note() const {
  if (columns().empty()) return "";
  return ", projected error and predicted nats per token sums over layers";
}

void LayerValues::append_to(std::vector<Value>& row, std::size_t policy, std::size_t amount,
                            std::optional<double> predicted_kl) const {
  if (!projected_errors_.empty()) {
    const std::vector<double> errors = projected_errors(policy, amount);
    std::optional<double> mean;
    if (!errors.empty()) mean = bootstrap_.mean(errors).value;
    row.push_back(value_of(mean));
  }
  if (!has_predicted_kl_) return;
  const auto of_text = static_cast<double>(num_units_) / static_cast<double>(num_layers_.size());
  row.push_back(value_of(predicted_kl ? std::optional(*predicted_kl * of_text) : std::nullopt));
}

UnitValues LayerValues::projected_errors(std::size_t amount) const {
  UnitValues values;
  const std::vector<Spec>& policies = plan_.request.policies;
  for (std::size_t policy = 0; policy < policies.size(); ++policy) {
    std::vector<double> errors = projected_errors(policy, amount);
    if (errors.empty()) return {};
    values.emplace(policies[policy].text(), std::move(errors));
  }
  return values;
}

std::string LayerValues::about_intervals() const {
  if (projected_errors_.empty() || bootstrap_.samples_sequences()) return "";
  return fmt::format("Those of projected errors: over {} layer{}.\n", bootstrap_.num_samples(),
                     bootstrap_.num_samples() == 1 ? "" : "s");
}

std::vector<double> LayerValues::projected_errors(std::size_t policy, std::size_t amount) const {
  const std::string text = plan_.request.policies[policy].text();
  std::vector<double> errors;
  for (const Layer& layer : layers_) {
    const UnitName& name = layer.unit->unit.name;
    const int budget = SweepPlan::budget_of(*layer.unit, amount, policy);
    const auto found =
        projected_errors_.find({layer.trace_id, name.sequence, name.layer, text, budget});
    if (found == projected_errors_.end()) return {};
    errors.push_back(found->second * num_layers_[layer.sequence]);
  }
  return errors;
}

std::vector<LayerValues::Layer> LayerValues::layers_of(const SweepPlan& plan, const Units& units) {
  std::vector<std::pair<std::string, std::string>> sequences;
  std::vector<Layer> layers;
  for (const PlannedUnit* unit : units) {
    if (!unit->in_whole_layer) return {};  // of a layer cut by --heads the file may hold more
    const UnitName& name = unit->unit.name;
    const std::string& id = plan.traces[unit->trace].id();
    if (!layers.empty()) {
      const UnitName& last = layers.back().unit->unit.name;
      if (layers.back().trace_id == id && last.sequence == name.sequence &&
          last.layer == name.layer) {
        continue;
      }
    }
    layers.push_back({unit, id, 0});
    sequences.emplace_back(id, name.sequence);
  }
  const std::vector<std::size_t> numbers = number_sequences(sequences);
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i].sequence = numbers[i];
  return layers;
}

PairedBootstrap LayerValues::bootstrap_of(const std::vector<Layer>& layers) {
  std::vector<std::size_t> sequences;
  for (const Layer& layer : layers) sequences.push_back(layer.sequence);
  return PairedBootstrap(std::move(sequences));
}

}  // namespace kvsim
