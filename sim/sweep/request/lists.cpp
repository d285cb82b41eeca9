#include "sim/sweep/request/lists.h"

#include <fmt/format.h>

#include <charconv>

#include "policies/parameters/split.h"
#include "sim/base/errors.h"

namespace kvsim {
namespace {

constexpr int kMostIndex = 1'000'000;

int parse_index(std::string_view text, const std::string& option) {
  int index = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, index);
  if (result.ec != std::errc() || result.ptr != end || index < 0 || index > kMostIndex) {
    throw UsageError(fmt::format("{}: '{}' is not an index; write 0-3,7", option, text));
  }
  return index;
}

}  // namespace

std::vector<int> parse_indices(const std::string& text, const std::string& option) {
  std::vector<int> indices;
  for (const std::string& part : parse_list(text, option)) {
    const std::size_t dash = part.find('-');
    const int first = parse_index(part.substr(0, dash), option);
    const int last = dash == std::string::npos ? first : parse_index(part.substr(dash + 1), option);
    if (last < first) {
      throw UsageError(
          fmt::format("{}: the range '{}' is empty; write it as {}-{}", option, part, last, first));
    }
    for (int index = first; index <= last; ++index) indices.push_back(index);
  }
  return indices;
}

std::vector<std::string> parse_list(const std::string& text, const std::string& option) {
  std::vector<std::string> parts;
  for (const std::string_view part : split(text, ',')) {
    if (part.empty()) throw UsageError(fmt::format("{}: '{}' has an empty entry", option, text));
    parts.emplace_back(part);
  }
  return parts;
}

}  // namespace kvsim
