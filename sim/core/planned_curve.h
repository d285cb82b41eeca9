#pragma once

#include "sim/core/curve.h"

namespace kvsim {

/// The curve of an oracle that plans all budgets at once. Attention lost and tokens missed follow
/// from its schedules in one more pass over the attention; output errors, from a replay at each
/// budget that is asked for. Takes 16 n² bytes.
Curve planned_curve(const Unit& unit, const Spec& oracle, const CurveOptions& options,
                    const Backend& backend);

}  // namespace kvsim
