#include "policies/parameters/grid.h"

#include <fmt/format.h>

#include <algorithm>

#include "policies/parameters/split.h"
#include "sim/base/errors.h"

namespace kvsim {
namespace {

/// The entries of the braces that `text` starts with, and the text after them.
struct Braces {
  std::vector<std::string_view> entries;
  std::string_view rest;
};

Braces parse_braces(std::string_view text, std::string_view whole, std::string_view what) {
  const auto fail = [&](std::string_view found) {
    throw UsageError(
        fmt::format("{} '{}': {}; write a grid as in recent={{0,0.5}}", what, whole, found));
  };
  const std::size_t end = text.find_first_of("{}", 1);
  if (end == std::string_view::npos) fail("a '{' is not closed");
  if (text[end] == '{') fail("a '{' stands within braces");
  const std::string_view inside = text.substr(1, end - 1);
  if (inside.empty()) fail("the braces are empty");
  Braces braces{split(inside, ','), text.substr(end + 1)};
  for (const std::string_view entry : braces.entries) {
    if (entry.empty()) fail(fmt::format("'{{{}}}' has an empty entry", inside));
  }
  return braces;
}

}  // namespace

std::vector<std::string_view> split_outside_braces(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  bool inside = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{') inside = true;
    if (text[i] == '}') inside = false;
    if (text[i] != separator || inside) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::vector<std::string> expand_grid(std::string_view text, std::string_view what) {
  std::vector<std::string> expanded{""};
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t brace = std::min(rest.find_first_of("{}"), rest.size());
    for (std::string& start : expanded) start += rest.substr(0, brace);
    rest = rest.substr(brace);
    if (rest.empty()) break;
    if (rest.front() == '}') {
      throw UsageError(fmt::format("{} '{}': a '}}' has no '{{' before it", what, text));
    }
    const Braces braces = parse_braces(rest, text, what);
    if (expanded.size() * braces.entries.size() > kMostOfAGrid) {
      throw UsageError(fmt::format("{} '{}': the grid has more than {} combinations; use fewer",
                                   what, text, kMostOfAGrid));
    }
    std::vector<std::string> longer;
    for (const std::string& start : expanded) {
      for (const std::string_view entry : braces.entries)
        longer.push_back(start + std::string(entry));
    }
    expanded = std::move(longer);
    rest = braces.rest;
  }
  return expanded;
}

}  // namespace kvsim
