#include "sim/base/amount.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "sim/base/errors.h"

namespace kvsim {
namespace {

template <class Number>
bool parse_whole(std::string_view text, Number& number) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  return result.ec == std::errc() && result.ptr == end;
}

/// What is wrong with a text that is no amount.
std::string_view problem_of(std::string_view text) {
  const bool percent = text.ends_with('%');
  double number = 0;
  const bool is_number = parse_whole(percent ? text.substr(0, text.size() - 1) : text, number);
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos) {
    return "is more than 2147483647 tokens";
  }
  if (is_number && number <= 0) return "is not above 0";
  if (is_number && number > (percent ? 100 : 1)) return "is more than the whole";
  return "is no amount";
}

}  // namespace

Amount Amount::parse(std::string_view text, std::string_view what) {
  if (text.find_first_not_of("0123456789") == std::string_view::npos) {
    int tokens = 0;
    if (parse_whole(text, tokens)) return {static_cast<double>(tokens), false, text};
  } else {
    const bool percent = text.ends_with('%');
    double share = 0;
    if (parse_whole(percent ? text.substr(0, text.size() - 1) : text, share)) {
      if (percent) share /= 100;
      if (share > 0 && share <= 1) return {share, true, text};
    }
  }
  throw UsageError(fmt::format(
      "{} '{}' {}; expected a number of tokens (256), a fraction in (0, 1] written with "
      "a point (0.2) or a percentage (20%)",
      what, text, problem_of(text)));
}

int Amount::of(int whole) const {
  if (!is_share_) return static_cast<int>(value_);
  return std::max(1, static_cast<int>(std::floor(value_ * whole + 0.5)));
}

std::string Amount::text() const {
  if (!is_share_) return fmt::format("{}", static_cast<int>(value_));
  std::string text = fmt::format("{}", value_);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace kvsim
