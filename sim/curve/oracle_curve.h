#pragma once

#include "sim/curve/curve.h"

namespace kvsim {

/// The curve of an oracle that plans all budgets at once. Losses and misses follow from its
/// schedules in one more pass over the attention, output errors from a replay at each of
/// CurveOptions::error_budgets. Takes 8 n² bytes. Throws Interrupted.
Curve oracle_curve(const Unit& unit, const Spec& oracle, const CurveOptions& options,
                   const Backend& backend);

}  // namespace kvsim
