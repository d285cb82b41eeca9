#include "policies/registry/aliases.h"

#include <vector>

namespace kvsim {

std::string PolicyAlias::spec() const {
  return allocation ? policy + '@' + allocation_name(*allocation) : policy;
}

std::span<const PolicyAlias> policy_aliases() {
  static const std::string h2_note = "heavy hitters without recent tokens are h2o:recent=0";
  static const std::vector<PolicyAlias> table{
      {"fullkv", "full"},
      {"fullcache", "full"},
      {"local", "window"},
      {"slidingwindow", "window"},
      {"streamingllm", "sink"},
      {"attentionsink", "sink"},
      {"attentionsinks", "sink"},
      {"h2", "h2o", {}, h2_note},
      {"heavyhitter", "h2o", {}, h2_note},
      {"heavyhitters", "h2o", {}, h2_note},
      {"adakv", "snapkv", Allocation::adaptive},
      {"adasnapkv", "snapkv", Allocation::adaptive},
      {"pyramidkv", "snapkv", Allocation::pyramid},
      {"l2norm", "knorm"},
      {"keynorm", "knorm"},
      {"exacttopk", "topk"},
      {"retrieval", "topk"},
      {"leastrecentlyused", "lru"},
      {"leastfrequentlyused", "lfu"},
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
