#pragma once

#include <string>
#include <vector>

#include "sim/results/store.h"

namespace kvsim::cli {

/// The canonical spec of the rows that `text` names: a spec or alias, which may be one that only
/// the file knows, the name of such a one, a label of the rows, or both as `sweep` takes them,
/// "LABEL=SPEC". `policies` are those of `store`; `file` is its name. Throws UsageError if there is
/// no such policy, or if the label or the name has several.
std::string stored_policy(const std::string& text, const std::vector<std::string>& policies,
                          const ResultStore& store, const std::string& file);

}  // namespace kvsim::cli
