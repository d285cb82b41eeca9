#pragma once

#include <filesystem>
#include <string>

#include "sim/plugin/load_plugin.h"
#include "tests/support/build_tree.h"

namespace kvsim {

/// A plug-in that was built for the tests.
inline std::filesystem::path plugin_file(const std::string& name) {
  return test_support::build_tree() / "tests/plugins" / ("lib" + name + ".so");
}

}  // namespace kvsim
