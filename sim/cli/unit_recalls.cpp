#include "sim/cli/unit_recalls.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace kvsim::cli {
namespace {

/// Without the zero before the point: tables are narrow.
std::string short_number(double number, int decimals) {
  std::string text = fixed(number, decimals);
  const std::size_t first = text.starts_with('-') ? 1 : 0;
  if (text.substr(first).starts_with("0.")) text.erase(first, 1);
  return text;
}

}  // namespace

std::string fixed(double number, int decimals) {
  std::string text = fmt::format("{:.{}f}", number, decimals);
  const bool is_zero = text.find_first_not_of("-0.") == std::string::npos;
  if (is_zero && text.starts_with('-')) text.erase(0, 1);
  return text;
}

std::vector<double> differences(const UnitRecalls& recalls, const std::string& a,
                                const std::string& b) {
  std::vector<double> differences = recalls.at(a);
  const std::vector<double>& others = recalls.at(b);
  std::transform(differences.begin(), differences.end(), others.begin(), differences.begin(),
                 std::minus<>());
  return differences;
}

std::string interval_text(const Estimate& estimate, int decimals) {
  if (!estimate.interval) return "";
  return fmt::format("[{}, {}]", short_number(estimate.interval->low, decimals),
                     short_number(estimate.interval->high, decimals));
}

}  // namespace kvsim::cli
