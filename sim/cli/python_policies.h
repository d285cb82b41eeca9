#pragma once

#include <string>
#include <vector>

namespace kvsim::cli {

/// The policies and selectors that installed Python packages declare, as `kvsim policies` prints
/// them: all, or the one of that name. Empty where there are none, where no Python with kvsim is
/// found, and where KVSIM_NO_PLUGINS is set.
std::string packaged_policies();
std::string packaged_policy(const std::string& name);

/// Lets a verb with replays look there for names that are not known and that stand in its words.
/// A compiled policy is loaded. For one in Python it throws UsageError, which names the package and
/// the call in Python, and for one that does not work.
void look_in_packages(const std::vector<std::string>& words);

}  // namespace kvsim::cli
