#include "traces/hdf5/place.h"

#include <fmt/format.h>

#include "sim/base/errors.h"
#include "sim/base/printable.h"

namespace kvsim {
Place Place::child(const std::string& name) const {
  return {file, path == "/" ? path + name : path + "/" + name};
}

Place Place::attribute(const std::string& name) const {
  return {file, fmt::format("{}: attribute {}", path, name)};
}

void Place::fail(const std::string& expected, const std::string& found,
                 const std::string& fix) const {
  throw DataError(
      printable(fmt::format("{}{}{}: expected {}, found {}{}{}", file, path.empty() ? "" : ": ",
                            path, expected, found, fix.empty() ? "" : "; ", fix)));
}

std::string in_quotes(const std::string& text) {
  constexpr std::size_t kLongest = 60;
  const bool fits = text.size() <= kLongest;
  return fmt::format("\"{}{}\"", printable(text.substr(0, kLongest)), fits ? "" : "...");
}

}  // namespace kvsim
