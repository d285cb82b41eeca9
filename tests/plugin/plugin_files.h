#pragma once

#include <filesystem>
#include <string>

#include "sim/plugin/load_plugin.h"

namespace kvsim {

/// A plug-in that was built for the tests.
inline std::filesystem::path plugin_file(const std::string& name) {
  return std::filesystem::path(KVSIM_TEST_PLUGINS) / ("lib" + name + ".so");
}

}  // namespace kvsim
