#pragma once

#include <string>

namespace kvsim {

/// The version of this library: the column kvsim_version.
std::string version();

}  // namespace kvsim
