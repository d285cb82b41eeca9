#pragma once

#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/tiers/selector.h"

namespace kvsim {

/// All selectors in the order in which help shows them, then those that were added. References to
/// entries stay valid.
const std::list<SelectorInfo>& selectors();

/// Adds a selector, whose `origin` the caller fills in, in place of an earlier one of that name and
/// origin; specs made of that one keep it. Adds the parameter `page` if it has none. Not while
/// another thread uses the table. Throws UsageError for a name that is none, or that the program
/// has.
void register_selector(SelectorInfo selector);

/// A selector with its parameters, as a user names it: `name` or `name:key=value,key=value`.
class SelectorSpec {
 public:
  /// `page`, if there is one, is the page of a spec that names none. Throws UsageError for an
  /// unknown selector or parameter, naming the nearest one, and for a value that is not allowed.
  explicit SelectorSpec(std::string_view text, std::optional<int> page = {});

  /// The canonical form: every parameter with its value, in declared order.
  std::string text() const;

  const SelectorInfo& info() const { return *info_; }

  int page() const { return params_.integer("page"); }  ///< in tokens

  /// The most older tokens that a step attends to, `k` in whole pages; none: it depends on the
  /// text.
  std::optional<int> attended() const;

  std::unique_ptr<Selector> make(const SelectorContext& context) const {
    return info_->make(params_, context);
  }

  std::int64_t summary_bytes(const Unit& unit) const;

  std::size_t bytes_per_token() const;  ///< SelectorInfo::bytes_per_token

 private:
  const SelectorInfo* info_;
  Params params_;
};

/// The specs of lists that are separated by ';', each once; `{a,b}` in a spec stands for one spec
/// each (expand_grid()). Throws UsageError as SelectorSpec, and for an empty list.
std::vector<SelectorSpec> parse_selectors(std::span<const std::string> lists,
                                          std::optional<int> page = {});

}  // namespace kvsim
