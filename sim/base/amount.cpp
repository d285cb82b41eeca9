#include "sim/base/amount.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

constexpr std::string_view kDigits = "0123456789";
constexpr double kMostBytes = 1e15;  // below 2^53: every whole number up to it is a double

// Longer names first, since each ends in B.
constexpr std::array<SizeUnit, 7> kUnits = {{{"KiB", 1 << 10},
                                             {"MiB", 1 << 20},
                                             {"GiB", 1 << 30},
                                             {"kB", 1'000},
                                             {"MB", 1'000'000},
                                             {"GB", 1'000'000'000},
                                             {"B", 1}}};

/// The number in front of the unit of a size, times its bytes. False: the text is no size.
bool parse_size(std::string_view text, double& bytes) {
  const SizeUnit unit = SizeUnit::of(text);
  const std::string_view number = text.substr(0, text.size() - unit.name.size());
  if (unit.name.empty() || number.empty()) return false;
  if (number.find_first_not_of("0123456789.") != std::string_view::npos) return false;
  double count = 0;
  if (!parse_whole(number, count)) return false;
  bytes = count * static_cast<double>(unit.bytes);
  return true;
}

/// What is wrong with a text that is no amount.
std::string_view problem_of(std::string_view text) {
  const bool percent = text.ends_with('%');
  double number = 0;
  if (parse_size(text, number)) {
    if (number == 0) return "is not above 0";
    if (number > kMostBytes) return "is more than 10^15 bytes";
    return "is no whole number of bytes";
  }
  const bool is_number = parse_whole(percent ? text.substr(0, text.size() - 1) : text, number);
  if (!text.empty() && text.find_first_not_of(kDigits) == std::string_view::npos) {
    return "is more than 2147483647 tokens";
  }
  if (is_number && number <= 0) return "is not above 0";
  if (is_number && number > (percent ? 100 : 1)) return "is more than the whole";
  return "is no amount";
}

constexpr std::string_view kForms =
    "a number of tokens (256), a fraction in (0, 1] written with a point (0.2) or a percentage "
    "(20%)";

}  // namespace

SizeUnit SizeUnit::of(std::string_view text) {
  for (const SizeUnit& unit : kUnits) {
    if (text.ends_with(unit.name)) return unit;
  }
  return {};
}

Amount Amount::parse(std::string_view text, std::string_view what) {
  if (text.find_first_not_of(kDigits) == std::string_view::npos) {
    int tokens = 0;
    if (parse_whole(text, tokens)) return {static_cast<double>(tokens), Form::tokens, text};
  } else {
    const bool percent = text.ends_with('%');
    double share = 0;
    if (parse_whole(percent ? text.substr(0, text.size() - 1) : text, share)) {
      if (percent) share /= 100;
      if (share > 0 && share <= 1) return {share, Form::share, text};
    }
  }
  double bytes = 0;
  throw UsageError(fmt::format(
      "{} '{}' {}; expected {}", what, text,
      parse_size(text, bytes) ? "is a size, which only a budget may be" : problem_of(text),
      kForms));
}

Amount Amount::parse_budget(std::string_view text, std::string_view what) {
  double bytes = 0;
  if (parse_size(text, bytes)) {
    if (bytes > 0 && bytes <= kMostBytes && bytes == std::floor(bytes)) {
      return {bytes, Form::bytes, text};
    }
  } else {
    try {
      return parse(text, what);
    } catch (const UsageError&) {  // it does not name sizes
    }
  }
  throw UsageError(fmt::format("{} '{}' {}; expected {}, or bytes per KV head (64KiB, 64kB)", what,
                               text, problem_of(text), kForms));
}

int Amount::of(int whole) const {
  if (is_bytes()) {
    throw UsageError(fmt::format("'{}' is a size; expected tokens, or a share of them", written_));
  }
  if (!is_share()) return static_cast<int>(value_);
  return std::max(1, static_cast<int>(std::floor(value_ * whole + 0.5)));
}

std::string Amount::text() const {
  if (is_bytes()) return fmt::format("{}B", bytes());
  if (!is_share()) return fmt::format("{}", static_cast<int>(value_));
  std::string text = fmt::format("{}", value_);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace kvsim
