#pragma once

#include "sim/replay/replay.h"
#include "sim/sweep/selection.h"

namespace kvsim {

/// Throws DataError, which names what is missing and how to record it, unless the trace holds what
/// the policy needs of this unit (PolicyInfo::needs) under this protocol.
void check_needs(const Spec& policy, const Trace& trace, const SelectedUnit& unit,
                 const Protocol& protocol);

}  // namespace kvsim
