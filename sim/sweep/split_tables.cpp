#include "sim/sweep/split_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/errors.h"
#include "sim/sweep/allocate_by_table.h"
#include "sim/sweep/policy_files.h"

namespace kvsim {

ModelHeads model_heads(const Trace& trace, const std::string& sequence) {
  ModelHeads model{.num_layers = trace.header().num_layers};
  const auto found = std::find_if(trace.sequences().begin(), trace.sequences().end(),
                                  [&](const SequenceInfo& each) { return each.name == sequence; });
  for (const LayerInfo& layer : found->layers) {
    if (layer.kv_from) continue;
    model.of_layer[layer.index] = {layer.shape.num_kv_heads, layer.shape.num_query_heads};
  }
  return model;
}

const HeadTable& SplitTables::of(const Spec& policy) {
  const AllocationSpec split = policy.allocation_spec();
  auto found = tables_.find(split.file());
  if (found == tables_.end()) {
    found = tables_.emplace(split.file(), read_head_table(split.file())).first;
  }
  const HeadTable& table = found->second;
  if (!split.sha256().empty() && split.sha256() != table.sha256) {
    throw DataError(
        fmt::format("{}: expected the budgets with SHA-256 {}, found {}; it has changed",
                    split.file(), split.sha256(), table.sha256));
  }
  check_table(split, table);
  return table;
}

Spec with_split_hash(const Spec& policy) {
  return policy.with_allocation_file(SplitTables().of(policy).sha256);
}

Spec with_file_hashes(const Spec& policy) {
  Spec found = policy.policy().reads_file() ? with_policy_file_hash(policy) : policy;
  return found.allocation_spec().reads_file() ? with_split_hash(found) : found;
}

}  // namespace kvsim
