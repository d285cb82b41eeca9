#include "policies/registry/aliases.h"

#include <vector>

namespace kvsim {

std::string PolicyAlias::spec() const {
  return allocation ? policy + '@' + allocation_name(*allocation) : policy;
}

std::span<const PolicyAlias> policy_aliases() {
  static const std::vector<PolicyAlias> table{
      {"fullkv", "full"},
      {"local", "window"},
      {"slidingwindow", "window"},
      {"streamingllm", "sink"},
      {"adakv", "snapkv", Allocation::adaptive},
      {"adasnapkv", "snapkv", Allocation::adaptive},
      {"pyramidkv", "snapkv", Allocation::pyramid},
      {"l2norm", "knorm"},
      {"duo", "sink", Allocation::duo},
      {"duoattention", "sink", Allocation::duo},
  };
  return table;
}

const PolicyAlias* find_alias(std::string_view name) {
  std::string bare;
  for (const char c : name) {
    if (c == '-' || c == '_') continue;
    bare += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  for (const PolicyAlias& alias : policy_aliases()) {
    if (alias.name == bare) return &alias;
  }
  return nullptr;
}

}  // namespace kvsim
