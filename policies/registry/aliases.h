#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "policies/registry/allocation.h"

namespace kvsim {

/// A name that papers print for a policy of the registry, perhaps with a split of the
/// budget, whose parameters then stand among those of the policy; one that both have, as the sinks
/// of DuoAttention, counts for both.
struct PolicyAlias {
  std::string name;    ///< in lower case, without '-' and '_'
  std::string policy;  ///< the name in the registry
  std::optional<Allocation> allocation = {};

  /// What to write instead: "sink", "snapkv@adaptive".
  std::string spec() const;
};

std::span<const PolicyAlias> policy_aliases();

/// The alias of that name, whatever its case, '-' and '_': "Streaming-LLM" is "streamingllm". Null
/// if there is none.
const PolicyAlias* find_alias(std::string_view name);

}  // namespace kvsim
