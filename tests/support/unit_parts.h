#pragma once

#include "traces/unit.h"

namespace kvsim::test_support {

/// The unit with vectors that are read part by part: `at_once` rows, at least a block of steps.
Unit read_in_parts(Unit unit, int at_once);

}  // namespace kvsim::test_support
