#pragma once

#include <string>

namespace kvsim {

/// The version of this library, as rows of results carry it.
std::string version();

}  // namespace kvsim
