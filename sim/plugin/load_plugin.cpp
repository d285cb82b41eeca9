#include "sim/plugin/load_plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <map>
#include <optional>

#include "policies/registry/registry.h"
#include "sim/base/errors.h"
#include "sim/plugin/descriptors.h"
#include "traces/sha256.h"

namespace kvsim {
namespace {

using PluginEntry = decltype(&kvsim_plugin);

/// The host of one plug-in, while its kvsim_plugin() runs.
class Host {
 public:
  explicit Host(PluginFile file) : file_(std::move(file)) {
    host_.version = KVSIM_PLUGIN_VERSION;
    host_.size = sizeof host_;
    host_.error = "";
    host_.context = this;
    host_.register_policy = [](const kvsim_host* host, const kvsim_policy* policy) {
      return of(host).keep_error([&](Host& self) {
        if (policy == nullptr) throw DataError(self.file_.name + ": expected a policy, found NULL");
        PolicyInfo info = policy_info_of(*policy, self.file_);
        self.names_.policies.push_back(info.name);
        register_policy(std::move(info));
      });
    };
    host_.register_analysis = [](const kvsim_host* host, const kvsim_analysis* analysis) {
      return of(host).keep_error([&](Host& self) {
        if (analysis == nullptr) {
          throw DataError(self.file_.name + ": expected an analysis, found NULL");
        }
        AnalysisInfo info = analysis_info_of(*analysis, self.file_);
        self.names_.analyses.push_back(info.name);
        register_analysis(std::move(info));
      });
    };
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  PluginNames run(PluginEntry entry) {
    const int result = entry(&host_);
    if (!first_error_.empty()) throw DataError(first_error_);
    if (result != 0) {
      throw DataError(
          fmt::format("{}: kvsim_plugin() returned {}: it refuses version {} of "
                      "kvsim/plugin.h",
                      file_.name, result, KVSIM_PLUGIN_VERSION));
    }
    if (names_.policies.empty() && names_.analyses.empty()) {
      throw DataError(file_.name + ": expected a policy or an analysis, found none");
    }
    return names_;
  }

 private:
  static Host& of(const kvsim_host* host) { return *static_cast<Host*>(host->context); }

  /// No exception may pass through functions of C.
  template <class Function>
  std::int32_t keep_error(const Function& function) {
    try {
      function(*this);
      host_.error = "";
      return 0;
    } catch (const std::exception& error) {
      last_error_ = error.what();
    }
    if (first_error_.empty()) first_error_ = last_error_;
    host_.error = last_error_.c_str();
    return 1;
  }

  PluginFile file_;
  kvsim_host host_ = {};
  PluginNames names_;
  std::string first_error_;
  std::string last_error_;
};

/// A library that is open: opened again, it would be the same even if the file is another.
struct LoadedPlugin {
  PluginEntry entry;
  std::string code;
  std::optional<PluginNames> names;  // none: it has registered what was wrong
};

PluginEntry entry_of(const std::filesystem::path& path, const std::string& name) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw DataError(fmt::format("{}: expected a plug-in, a shared library: {}", name, dlerror()));
  }
  void* const entry = dlsym(library, "kvsim_plugin");
  if (entry == nullptr) {
    throw DataError(fmt::format(
        "{}: expected the function kvsim_plugin() of kvsim/plugin.h, found a library without it",
        name));
  }
  return reinterpret_cast<PluginEntry>(entry);
}

}  // namespace

const PluginNames& load_plugin(const std::filesystem::path& file) {
  static std::map<std::filesystem::path, LoadedPlugin> loaded;
  const std::string name = file.string();
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(file, error);
  if (error) throw DataError(fmt::format("{}: expected a plug-in: {}", name, error.message()));
  if (!std::filesystem::is_regular_file(path, error)) {
    throw DataError(name + ": expected a plug-in, a shared library, found no file");
  }
  const std::string code = sha256_of_file(path);
  auto plugin = loaded.find(path);
  if (plugin == loaded.end()) {
    plugin = loaded.emplace(path, LoadedPlugin{entry_of(path, name), code, {}}).first;
  } else if (plugin->second.code != code) {
    throw DataError(name + ": the file has changed since it was loaded; start a new process");
  }
  std::optional<PluginNames>& names = plugin->second.names;
  if (!names) names = Host({name, code}).run(plugin->second.entry);
  return *names;
}

}  // namespace kvsim
