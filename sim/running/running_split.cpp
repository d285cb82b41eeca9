#include "sim/running/running_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "sim/base/errors.h"
#include "sim/results/scorer_file.h"
#include "sim/sweep/allocate.h"
#include "sim/sweep/split_tables.h"

namespace kvsim {
namespace {

/// The layers with caches of their own; those that read another layer's count, too.
ModelHeads heads_of(const ModelShape& shape) {
  ModelHeads heads;
  for (const ModelLayer& layer : shape.layers) {
    heads.of_layer[layer.index] = {layer.shape.num_kv_heads, layer.shape.num_query_heads};
    heads.num_layers = std::max(heads.num_layers, layer.index + 1);
    for (const ReadingLayer& reader : layer.readers) {
      heads.num_layers = std::max(heads.num_layers, reader.index + 1);
    }
  }
  return heads;
}

/// The numbers that the policy's split reads, if it reads a file.
std::optional<HeadTable> table_of(const Spec& policy, const ModelShape& shape,
                                  const RunningLength& length) {
  if (!policy.allocation_spec().reads_file()) return std::nullopt;
  if (policy.rules({}).scope != Scope::head) {
    throw UsageError(
        fmt::format("{}: {} splits a layer's budget over its heads, which here share one cache; "
                    "leave it out, or use another allocation",
                    policy.text(), allocation_name(policy.allocation())));
  }
  HeadTable table = fitted(SplitTables().of(policy), heads_of(shape));
  if (policy.allocation() == Allocation::duo && length.tokens == 0) {
    throw UsageError(
        fmt::format("{}: its retrieval heads keep the whole text, whose length is not known; "
                    "evaluate a text that is known",
                    policy.text()));
  }
  if (table.rows > 1 && length.prompt <= 0 && length.tokens == 0) {
    throw UsageError(
        fmt::format("{}: the ratio that chooses among its shares needs the length of the prompt or "
                    "text; use mode prefill, or evaluate a text that is known",
                    policy.text()));
  }
  return table;
}

}  // namespace

std::vector<int> split_of(const Configuration& configuration, const ModelShape& shape,
                          std::span<const std::unique_ptr<RunningUnit>> units,
                          const RunningLength& length, const Protocol& protocol) {
  const Spec& policy = configuration.policy;
  const PolicyWindow window = window_of(policy, configuration.budget);
  std::vector<UnitProfile> profiles;
  const auto backend = make_cpu_backend();
  for (const auto& unit : units) {
    if (needs_measurement(policy.allocation())) {
      profiles.push_back(measure_profile(unit->unit(), protocol, *backend, {window.voting_steps}));
    } else {
      profiles.push_back({.name = unit->unit().name});
    }
  }
  const std::optional<HeadTable> table = table_of(policy, shape, length);
  const int any = std::numeric_limits<int>::max() / static_cast<int>(units.size());
  const int known = length.prompt > 0 ? length.prompt : length.tokens;
  const int per_token = policy.is_estimator() ? 2 : 1;
  return allocate(policy.allocation_spec(),
                  {.tokens = configuration.budget,
                   .most = length.tokens > 0 && !policy.is_estimator() ? length.tokens : any,
                   .length = known > 0 ? per_token * known : any,
                   .window = window},
                  profiles, table ? &*table : nullptr);
}

void check_scorers(const Spec& policy, const ModelShape& shape) {
  if (policy.scorer() == nullptr) return;
  int most = 0;
  for (const ModelLayer& layer : shape.layers) most = std::max(most, layer.shape.num_kv_heads);
  // The last layers of a model may have no attention.
  const int layers = std::max(heads_of(shape).num_layers, policy.scorer()->layers);
  for (const ModelLayer& layer : shape.layers) {
    check_scorer(*policy.scorer(),
                 {.layers = layers,
                  .kv_heads = most,
                  .head_dim = layer.shape.head_dim,
                  .value_dim = layer.shape.value_dim},
                 "the model");
  }
}

}  // namespace kvsim
