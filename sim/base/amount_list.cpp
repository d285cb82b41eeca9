#include "sim/base/amount_list.h"

#include <fmt/format.h>

#include <cmath>

#include "sim/base/errors.h"

namespace kvsim {
namespace {

enum class Form { tokens, fraction, percent, bytes };

using Parse = Amount (*)(std::string_view text, std::string_view what);

Form form_of(const Amount& amount) {
  if (amount.is_bytes()) return Form::bytes;
  if (!amount.is_share()) return Form::tokens;
  return amount.written().ends_with('%') ? Form::percent : Form::fraction;
}

/// The number in front of the percent sign, or the amount's value.
double number_of(const Amount& amount) {
  constexpr double kPercent = 100;
  return form_of(amount) == Form::percent ? amount.value() * kPercent : amount.value();
}

/// As a user would write it: without the rounding errors of the sums, and a size in the unit of
/// `first`, where that gives the same bytes.
std::string written(double number, const Amount& first) {
  const Form form = form_of(first);
  if (form == Form::bytes) {
    const SizeUnit unit = SizeUnit::of(first.written());
    const auto bytes = static_cast<std::int64_t>(number);
    if (bytes % unit.bytes != 0) return fmt::format("{}B", bytes);
    return fmt::format("{}{}", bytes / unit.bytes, unit.name);
  }
  std::string text = fmt::format("{:.10g}", number);
  if (form == Form::percent) text += '%';
  if (form == Form::fraction && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::vector<Amount> parse_each(std::string_view text, std::string_view what, Parse parse) {
  constexpr std::string_view kTo = "..";
  const std::size_t to = text.find(kTo);
  if (to == std::string_view::npos) return {parse(text, what)};
  const auto fail = [&](const std::string& found) {
    throw UsageError(fmt::format("{} '{}': {}", what, text, found));
  };
  const std::string_view start = text.substr(0, to);
  const std::string_view rest = text.substr(to + kTo.size());
  const std::size_t colon = rest.find(':');
  if (colon == std::string_view::npos) {
    fail("the range has no step; write it as in 5%..50%:5% or 16..256:16");
  }
  const auto part = [&](std::string_view amount, std::string_view name) {
    return parse(amount, fmt::format("{} '{}': {}", what, text, name));
  };
  const Amount first = part(start, "first amount");
  const Amount last = part(rest.substr(0, colon), "last amount");
  const Amount step = part(rest.substr(colon + 1), "step");
  const Form form = form_of(first);
  if (form_of(last) != form || form_of(step) != form) {
    fail("expected both ends and the step in one form: tokens, fractions, percent or bytes");
  }
  if (step.value() == 0) fail("expected a step of 1 or more, found 0");
  if (last.value() < first.value()) {
    fail(fmt::format("the range is empty; write {}..{}:{}", last.written(), first.written(),
                     step.written()));
  }
  constexpr double kRounding = 1e-9;
  const double steps =
      std::floor((number_of(last) - number_of(first)) / number_of(step) + kRounding);
  if (steps >= kMostOfARange) {
    fail(fmt::format("the range has more than {} amounts; take a larger step", kMostOfARange));
  }
  std::vector<Amount> amounts;
  for (int i = 0; i <= static_cast<int>(steps); ++i) {
    const double number = number_of(first) + i * number_of(step);
    amounts.push_back(parse(written(number, first), what));
  }
  return amounts;
}

}  // namespace

std::vector<Amount> parse_amounts(std::string_view text, std::string_view what) {
  return parse_each(text, what, &Amount::parse);
}

std::vector<Amount> parse_budget_amounts(std::string_view text, std::string_view what) {
  return parse_each(text, what, &Amount::parse_budget);
}

}  // namespace kvsim
