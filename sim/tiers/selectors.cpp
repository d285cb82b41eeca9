#include "sim/tiers/selectors.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <shared_mutex>

#include "policies/parameters/grid.h"
#include "policies/parameters/split.h"
#include "sim/base/errors.h"
#include "sim/base/nearest.h"
#include "sim/tiers/selector_finder.h"

namespace kvsim {

// One line per selector: NAME stands for the function NAME_selector() that its file defines.
#define KVSIM_SELECTORS(SELECTOR) \
  SELECTOR(topk)                  \
  SELECTOR(top_p)                 \
  SELECTOR(quest)                 \
  SELECTOR(sparq)                 \
  SELECTOR(pq)                    \
  SELECTOR(magicpig)

#define KVSIM_DECLARE_SELECTOR(name) SelectorInfo name##_selector();
KVSIM_SELECTORS(KVSIM_DECLARE_SELECTOR)

namespace {

constexpr int kMostTokens = 100'000'000;

std::list<SelectorInfo>& selector_table() {
#define KVSIM_CALL_SELECTOR(name) name##_selector(),
  static std::list<SelectorInfo> table{KVSIM_SELECTORS(KVSIM_CALL_SELECTOR)};
#undef KVSIM_CALL_SELECTOR
  return table;
}

/// Classes of Python and of packages join the table while others read it.
std::shared_mutex& table_mutex() {
  static std::shared_mutex mutex;
  return mutex;
}

bool is_name(std::string_view name) {
  const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
  return !name.empty() && is_lower(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return is_lower(c) || (c >= '0' && c <= '9') || c == '-' || c == '_';
         });
}

Finder& finder() {
  static Finder finder;
  return finder;
}

const SelectorInfo& find_selector(std::string_view name) {
  const auto is_known = [&] {
    const std::shared_lock lock(table_mutex());
    return std::any_of(selectors().begin(), selectors().end(),
                       [&](const SelectorInfo& info) { return info.name == name; });
  };
  if (finder() && !is_known()) finder()(name);
  const std::shared_lock lock(table_mutex());
  std::vector<std::string> names;
  for (const SelectorInfo& info : selectors()) {
    if (info.name == name) return info;
    names.push_back(info.name);
  }
  throw UsageError(
      fmt::format("unknown selector '{}'; did you mean '{}'? (kvsim fetch --help lists them)", name,
                  nearest(name, names)));
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

}  // namespace

const std::list<SelectorInfo>& selectors() { return selector_table(); }

void set_selector_finder(Finder asked) { finder() = std::move(asked); }

void register_selector(SelectorInfo selector) {
  if (!is_name(selector.name)) {
    throw UsageError(fmt::format(
        "selector '{}' of {}: expected a name of lower-case letters, digits, '-' and '_' that "
        "begins with a letter; choose another",
        selector.name, selector.origin));
  }
  const auto has_name = [](const char* name) {
    return [name](const Param& param) { return param.name == name; };
  };
  if (std::none_of(selector.params.begin(), selector.params.end(), has_name("page"))) {
    selector.params.push_back(page_param());
  }
  const std::unique_lock lock(table_mutex());
  std::list<SelectorInfo>& table = selector_table();
  static std::list<SelectorInfo> replaced;  // specs refer to them
  const auto earlier = std::find_if(table.begin(), table.end(), [&](const SelectorInfo& known) {
    return known.name == selector.name;
  });
  if (earlier != table.end()) {
    if (earlier->origin != selector.origin) {
      throw UsageError(fmt::format(
          "selector '{}' of {}: a selector that is built in has this name; choose another",
          selector.name, selector.origin));
    }
    replaced.splice(replaced.end(), table, earlier);
  }
  table.push_back(std::move(selector));
}

Param number_param() {
  return Param::integer("k", 64, 1, kMostTokens,
                        "older tokens to attend to, rounded up to whole pages");
}

Param page_param(int initial) {
  return Param::integer("page", initial, 1, kMostTokens, "tokens of a page");
}

int pages_of(const Params& params) {
  return (params.integer("k") - 1) / params.integer("page") + 1;
}

SelectorSpec::SelectorSpec(std::string_view text, std::optional<int> page)
    : info_(&find_selector(text.substr(0, text.find(':')))), params_(info_->params) {
  const std::string owner = "selector " + info_->name;
  if (page) params_.set("page", fmt::format("{}", *page), "--page");
  if (text.size() == info_->name.size()) return;
  std::set<std::string_view> seen;
  for (const std::string_view setting : split(text.substr(info_->name.size() + 1), ',')) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string_view::npos) {
      throw UsageError(fmt::format("{}: expected key=value, found '{}'", owner, setting));
    }
    const std::string_view name = setting.substr(0, equals);
    if (!seen.insert(name).second) {
      throw UsageError(fmt::format("{}: '{}' stands twice; leave one out", owner, name));
    }
    params_.set(name, setting.substr(equals + 1), owner);
  }
}

std::string SelectorSpec::text() const { return info_->name + ":" + params_.text(); }

std::optional<int> SelectorSpec::attended() const {
  const bool is_fixed = std::any_of(info_->params.begin(), info_->params.end(),
                                    [](const Param& param) { return param.name == "k"; });
  if (!is_fixed) return {};
  return pages_of(params_) * page();
}

std::int64_t SelectorSpec::summary_bytes(const Unit& unit) const {
  return info_->summary_bytes == nullptr ? 0 : info_->summary_bytes(params_, unit);
}

std::size_t SelectorSpec::bytes_per_token() const {
  return info_->bytes_per_token == nullptr ? 0 : info_->bytes_per_token(params_);
}

std::vector<SelectorSpec> parse_selectors(std::span<const std::string> lists,
                                          std::optional<int> page) {
  std::vector<SelectorSpec> specs;
  const auto add = [&](const SelectorSpec& spec) {
    const auto same = [&](const SelectorSpec& other) { return other.text() == spec.text(); };
    if (std::none_of(specs.begin(), specs.end(), same)) specs.push_back(spec);
  };
  for (const std::string& list : lists) {
    for (const std::string_view part : split_outside_braces(list, ';')) {
      if (trimmed(part).empty()) continue;
      for (const std::string& text : expand_grid(trimmed(part), "--select")) {
        add(SelectorSpec(text, page));
      }
    }
  }
  if (specs.empty()) throw UsageError("--select: no selector in the list");
  return specs;
}

}  // namespace kvsim
