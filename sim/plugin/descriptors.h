#pragma once

#include <kvsim/plugin.h>

#include <string>

#include "analysis/analysis.h"
#include "policies/interface/policy_info.h"

namespace kvsim {

/// A plug-in, as what it registers names it.
struct PluginFile {
  std::string name;  ///< as the user wrote it
  std::string code;  ///< the SHA-256 of its bytes
};

/// What a plug-in registers, as the registries take it. They throw DataError, which names the file,
/// the policy or analysis and the member, for a descriptor of another version or one that is wrong.
PolicyInfo policy_info_of(const kvsim_policy& policy, const PluginFile& file);
AnalysisInfo analysis_info_of(const kvsim_analysis& analysis, const PluginFile& file);

}  // namespace kvsim
