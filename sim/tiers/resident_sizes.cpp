#include "sim/tiers/resident_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "policies/parameters/split.h"
#include "sim/base/amount_list.h"
#include "sim/base/errors.h"

namespace kvsim {
namespace {

constexpr int kMostResident = 1'000'000'000;  // on a device

void check_pages(const Amount& amount, const SelectorSpec& selector) {
  const int page = selector.page();
  const int most = kMostResident / page * page;
  if (amount.of(1) > most) {
    throw UsageError(fmt::format("--resident {}: expected at most {} tokens for {}",
                                 amount.written(), most, selector.text()));
  }
  if (amount.of(1) % page == 0) return;
  throw UsageError(fmt::format(
      "--resident {}: expected a multiple of the page of {} tokens of {}; write {}",
      amount.written(), page, selector.text(),
      std::max((amount.of(1) / page + 1) * page, selector.attended().value_or(0) + page)));
}

[[noreturn]] void refuse(const Amount& amount, const SelectorSpec& selector, int attended,
                         const std::string& where) {
  throw UsageError(fmt::format(
      "--resident {}: {} attends to up to {} older tokens{}, which have to be resident together "
      "with the step's own page; expected at least {}",
      amount.written(), selector.text(), attended, where, attended + selector.page()));
}

}  // namespace

std::vector<Amount> parse_residents(std::span<const std::string> lists) {
  std::vector<Amount> residents;
  for (const std::string& list : lists) {
    for (const std::string_view part : split(list, ',')) {
      if (part.empty()) throw UsageError("--resident: an entry of the list is empty");
      for (const Amount& amount : parse_amounts(part, "--resident")) residents.push_back(amount);
    }
  }
  return residents;
}

void check_resident(const Amount& amount, const SelectorSpec& selector) {
  if (amount.is_share()) return;
  check_pages(amount, selector);
  const std::optional<int> attended = selector.attended();
  if (attended && amount.of(1) < *attended + selector.page()) {
    refuse(amount, selector, *attended, "");
  }
}

std::vector<ResidentSize> resident_sizes(const std::vector<Amount>& amounts,
                                         const SelectorSpec& selector, int attended, int base,
                                         const std::string& unit) {
  const int page = selector.page();
  const int least = attended + page;
  std::vector<ResidentSize> sizes;
  for (const Amount& amount : amounts) {
    int tokens = 0;
    if (amount.is_share()) {
      const double pages = std::floor(amount.value() * base / page + 0.5);
      tokens = std::max(static_cast<int>(pages) * page, least);
    } else {
      check_pages(amount, selector);
      tokens = amount.of(1);
      if (tokens < least) refuse(amount, selector, attended, " of " + unit);
    }
    const auto same = [&](const ResidentSize& other) { return other.tokens == tokens; };
    if (std::any_of(sizes.begin(), sizes.end(), same)) continue;
    sizes.push_back({tokens, amount.written()});
  }
  std::sort(sizes.begin(), sizes.end(),
            [](const ResidentSize& a, const ResidentSize& b) { return a.tokens < b.tokens; });
  return sizes;
}

std::vector<ResidentSize> all_resident_sizes(int page, int attended, int num_tokens) {
  const int most = ((num_tokens - 1) / page + 1) * page;
  std::vector<ResidentSize> sizes;
  for (int tokens = attended + page; sizes.empty() || tokens <= most; tokens += page) {
    sizes.push_back({tokens, ""});
  }
  return sizes;
}

}  // namespace kvsim
