#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "policies/registry.h"

namespace kvsim {

/// A policy with its parameters, as a user names it: `name` or `name:key=value,key=value`, and the
/// combinators that change it, each behind a '+': `h2o+protect:first=10%`.
class Spec {
 public:
  /// Throws UsageError for an unknown policy, combinator or parameter or a value that is not
  /// allowed.
  explicit Spec(std::string_view text);
  explicit Spec(const PolicyInfo& policy) : policy_(&policy), params_(policy.params) {}

  /// The same policy with one combinator more, at its defaults.
  Spec with(const CombinatorInfo& combinator) const;

  /// The canonical form: every parameter with its value, in declared order.
  std::string text() const;

  const PolicyInfo& policy() const { return *policy_; }
  std::unique_ptr<Policy> make(const Context& context) const;

 private:
  const PolicyInfo* policy_;  // entries of the registry live as long as the program
  Params params_;
  std::vector<std::pair<const CombinatorInfo*, Params>> combinators_;  // in the order of wrapping
};

/// Specs separated by ';', or every policy for "all". A policy named twice is kept once.
std::vector<Spec> parse_specs(std::string_view list);

}  // namespace kvsim
