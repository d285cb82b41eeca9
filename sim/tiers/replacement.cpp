#include "sim/tiers/replacement.h"

#include <fmt/format.h>

#include <algorithm>

#include "policies/parameters/split.h"
#include "sim/base/errors.h"
#include "sim/base/nearest.h"

namespace kvsim {
namespace {

const std::vector<std::string>& names() {
  static const std::vector<std::string> table{"lru", "fifo", "clock", "lfu", "mass", "belady"};
  return table;
}

}  // namespace

std::string name_of(Replacement replacement) {
  return names()[static_cast<std::size_t>(replacement)];
}

std::vector<Replacement> parse_replacements(const std::string& text, const std::string& option) {
  std::vector<bool> asked(names().size(), text == "all");
  for (const std::string_view part : split(text, ',')) {
    if (text == "all") break;
    const auto found = std::find(names().begin(), names().end(), part);
    if (found == names().end()) {
      throw UsageError(fmt::format("{}: unknown replacement '{}'; did you mean '{}'? It takes: {}",
                                   option, part, nearest(part, names()), fmt::join(names(), ", ")));
    }
    asked[static_cast<std::size_t>(found - names().begin())] = true;
  }
  std::vector<Replacement> replacements;
  for (std::size_t i = 0; i < names().size(); ++i) {
    if (asked[i]) replacements.push_back(static_cast<Replacement>(i));
  }
  return replacements;
}

}  // namespace kvsim
