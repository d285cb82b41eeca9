#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policies/allocation.h"
#include "policies/registry.h"

namespace kvsim {

/// A policy with its parameters, as a user names it: `name` or `name:key=value,key=value`, and the
/// combinators that change it, each behind a '+': `h2o+protect:first=10%`. Wherever `preset=NAME`
/// stands, it comes first and the other settings override it.
class Spec {
 public:
  /// Throws UsageError for an unknown policy, combinator, parameter or preset, a value that is not
  /// allowed, or a preset that sees the future.
  explicit Spec(std::string_view text);
  explicit Spec(const PolicyInfo& policy) : policy_(&policy), params_(policy.params) {}

  /// The same policy with one combinator more, at its defaults.
  Spec with(const CombinatorInfo& combinator) const;

  /// The same policy with the budget split over layers and heads in this way, `spec@pyramid`,
  /// unless it says how itself.
  Spec allocated(Allocation allocation) const;
  Allocation allocation() const { return allocation_.value_or(Allocation::uniform); }

  /// The canonical form: every parameter with its value, in declared order. A preset does not show.
  std::string text() const;

  const PolicyInfo& policy() const { return *policy_; }
  const Params& params() const { return params_; }

  /// Only for a policy that follows a schedule: its file and what the file has to hold, if that is
  /// said.
  const std::string& schedule_file() const;
  const std::string& schedule_sha256() const;
  Spec with_schedule(const std::string& sha256) const;

  /// Null if it is an estimator, or is none.
  std::unique_ptr<Policy> make(const Context& context) const;
  std::unique_ptr<Estimator> make_estimator(const Context& context) const;

  /// The policy's rules as its combinators change them; those of an estimator are the defaults.
  Rules rules(const Context& context) const;
  bool is_estimator() const { return policy_->make_estimator != nullptr; }

  /// Whether its caches nest, see PolicyInfo; with a combinator or an allocation they count as if
  /// they did not.
  bool nests() const;

  bool is_oracle() const { return policy_->make_planner != nullptr; }
  /// Whether no policy without a combinator can retain more attention at the same budget.
  bool bounds_recall() const;
  /// Whether it is an oracle that plans all budgets at once, without a combinator or an allocation.
  bool plans_every_budget() const;

 private:
  bool is_bare() const;

  const PolicyInfo* policy_;  // entries of the registry live as long as the program
  Params params_;
  std::vector<std::pair<const CombinatorInfo*, Params>> combinators_;  // as written
  std::optional<Allocation> allocation_;  // none: not said, which is uniform
};

/// The specs without those that come a second time.
std::vector<Spec> each_once(std::vector<Spec> specs);

/// Specs separated by ';', each once. "all" stands for every policy that is no oracle and needs no
/// file, and "oracles" for every oracle, at their defaults. A policy named twice is kept once.
std::vector<Spec> parse_specs(std::string_view list);

}  // namespace kvsim
