#pragma once

#include "sim/base/finder.h"

namespace kvsim {

/// What SelectorSpec asks for an unknown name before it throws; nobody at first. Not while another
/// thread uses the table.
void set_selector_finder(Finder asked);

}  // namespace kvsim
