#include "policies/registry/settings.h"

#include <fmt/format.h>

#include <set>

#include "policies/parameters/split.h"
#include "sim/base/errors.h"

namespace kvsim {

Settings parse_settings(std::string_view text, const std::string& owner) {
  Settings settings;
  std::set<std::string_view> seen;
  for (std::string_view setting : split(text, ',')) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string_view::npos) {
      throw UsageError(fmt::format("{}: '{}' is not of the form key=value", owner, setting));
    }
    const std::string_view name = setting.substr(0, equals);
    if (!seen.insert(name).second) {
      throw UsageError(fmt::format("{}: '{}' is given twice", owner, name));
    }
    settings.emplace_back(name, setting.substr(equals + 1));
  }
  return settings;
}

}  // namespace kvsim
