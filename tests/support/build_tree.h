#pragma once

#include <filesystem>

namespace kvsim::test_support {

/// The tree that this program was linked in, which holds kvsim, its plug-ins and modules as well.
inline std::filesystem::path build_tree() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

}  // namespace kvsim::test_support
