#pragma once

#include <string>

namespace kvsim {

/// Of this machine; empty if it has none.
std::string host_name();

}  // namespace kvsim
