#include "python/engine/sent_rows.h"

#include <fmt/format.h>

#include <stdexcept>

namespace kvsim::python {

SentRow sent(const Outcome& outcome) {
  SentRow row;
  auto& [values, sent_proof, layer_error, intervals] = row;
  for (const Column& column : result_columns()) values.push_back(column.get(outcome.result));
  if (const auto& proof = outcome.proof) {
    sent_proof = {proof->loss, proof->loss_bound, proof->recall_bound};
  }
  if (const auto& error = outcome.layer_error) {
    layer_error = {error->projected_error, error->projected_error_relative, error->predicted_kl,
                   error->num_layers};
  }
  for (const SampledInterval& sampled : outcome.intervals) {
    std::optional<std::pair<double, double>> ends;
    if (const auto& interval = sampled.interval) ends = {interval->low, interval->high};
    intervals.emplace_back(sampled.metric, ends);
  }
  return row;
}

Outcome received(const SentRow& row) {
  Outcome outcome;
  const auto columns = result_columns();
  const auto& [values, proof, layer_error, intervals] = row;
  if (values.size() != columns.size()) {
    fail_to_receive(
        fmt::format("expected {} values in a row, found {}", columns.size(), values.size()));
  }
  for (std::size_t i = 0; i < columns.size(); ++i) columns[i].set(outcome.result, values[i]);
  if (proof) {
    const auto& [loss, loss_bound, recall_bound] = *proof;
    outcome.proof = Proof{loss, loss_bound, recall_bound};
  }
  if (layer_error) {
    const auto& [projected, relative, predicted_kl, num_layers] = *layer_error;
    outcome.layer_error = LayerError{projected, relative, predicted_kl, num_layers};
  }
  for (const auto& [metric, ends] : intervals) {
    SampledInterval& sampled = outcome.intervals.emplace_back();
    sampled.metric = metric;
    if (ends) sampled.interval = {ends->first, ends->second};
  }
  return outcome;
}

void fail_to_receive(const std::string& expected_and_found) {
  throw std::runtime_error(
      fmt::format("executor: {}; do all processes run the same kvsim?", expected_and_found));
}

}  // namespace kvsim::python
