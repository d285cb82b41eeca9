#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kvsim {

/// What a plug-in registered, by name.
struct PluginNames {
  std::vector<std::string> policies;
  std::vector<std::string> analyses;
};

/// Loads a plug-in, a shared library that follows kvsim/plugin.h, and registers what it has. A file
/// that is loaded already is not loaded again. It stays loaded until the process ends. Throws
/// DataError, which names the file, if it is no plug-in of this version, has changed since it was
/// loaded, or registers what is wrong or has a name that is taken; what it registered before stays.
/// Not while another thread uses the registries of policies and analyses.
const PluginNames& load_plugin(const std::filesystem::path& file);

}  // namespace kvsim
