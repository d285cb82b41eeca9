#pragma once

#include "sim/base/finder.h"

namespace kvsim {

/// What find_policy() asks before it throws; nobody at first. Not while another thread uses the
/// registry.
void set_policy_finder(Finder asked);

}  // namespace kvsim
