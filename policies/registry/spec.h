#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policies/registry/allocation.h"
#include "policies/registry/registry.h"

namespace kvsim {

struct Recipe;

/// A policy with its parameters, as a user names it: `name` or `name:key=value,key=value`, followed
/// by the combinators that change it, each after a '+': `h2o+protect:first=10%`. `preset=NAME` is
/// applied first, wherever it stands; the other settings override it. The name may be an alias
/// (aliases.h); where that names a split with parameters, they stand among the policy's:
/// `duo:file=PATH`. A split of the budget follows after '@' (allocation.h). `recipe:file=PATH`
/// stands for the policy that a file names (recipe.h), which also gives the label.
class Spec {
 public:
  /// Throws UsageError for an unknown policy, combinator, parameter or preset, a value that is not
  /// allowed, a preset that sees the future, or a combinator that cannot change the policy; and
  /// what read_recipe() throws.
  explicit Spec(std::string_view text);
  /// The spec of a row of a result file, which names no recipe: no text of a row opens a file.
  /// Throws UsageError as above.
  static Spec stored(std::string_view text);
  explicit Spec(const PolicyInfo& policy) : policy_(&policy), params_(policy.params) {}

  /// The same spec with one more combinator, at its defaults. Throws UsageError if that cannot
  /// change it.
  Spec with(const CombinatorInfo& combinator) const;

  /// The same spec with this split of the budget over layers and heads (`spec@pyramid`), unless it
  /// names a split itself.
  Spec allocated(const AllocationSpec& allocation) const;
  Allocation allocation() const { return allocation_spec().rule(); }
  /// The allocation with its parameters.
  AllocationSpec allocation_spec() const { return allocation_.value_or(Allocation::uniform); }
  /// Only where the split reads a file: the SHA-256 that the file must have.
  Spec with_allocation_file(const std::string& sha256) const;

  /// The canonical form: every parameter with its value, in declared order. Presets appear as the
  /// values that they set.
  std::string text() const;

  /// A name for tables and figures, which is no part of text(); empty: none.
  const std::string& label() const { return label_; }
  Spec labelled(const std::string& label) const;

  /// The name that the spec was given, if it is an alias; else empty.
  const std::string& alias() const { return alias_; }

  /// Digests of the code of the policy, its combinators and its allocation.
  std::string code() const;

  const PolicyInfo& policy() const { return *policy_; }
  const Params& params() const { return params_; }

  /// Only for a policy that reads a file: its path, and the SHA-256 that the file must have (empty:
  /// any).
  const std::string& file() const;
  const std::string& file_sha256() const;
  Spec with_file_sha256(const std::string& sha256) const;

  /// Only for a policy that reads trained scorers: with those of its file, which are no part of
  /// text(). Replays need them; rules without them ask for nothing that the file decides.
  Spec with_scorer(std::shared_ptr<const Scorer> scorer) const;
  const Scorer* scorer() const { return scorer_.get(); }  ///< null: not read

  /// make() returns null for an estimator, make_estimator() for every other policy.
  std::unique_ptr<Policy> make(const Context& context) const;
  std::unique_ptr<Estimator> make_estimator(const Context& context) const;

  /// The rules of the policy, changed by the combinators. An estimator starts from the default
  /// rules.
  Rules rules(const Context& context) const;
  bool is_estimator() const { return policy_->make_estimator != nullptr; }

  /// The tokens that the policy may keep of a budget: one less where a combinator adds an entry.
  int tokens_of(int budget) const;

  /// Whether its caches nest (PolicyInfo::nests). False with a combinator or an allocation.
  bool nests() const;

  TraceNeeds needs() const;  ///< those of the policy and its combinators

  bool is_oracle() const { return policy_->make_planner != nullptr; }
  /// PolicyInfo::bounds_recall. False with a combinator.
  bool bounds_recall() const;
  /// PolicyInfo::plans_every_budget. False with a combinator or an allocation.
  bool plans_every_budget() const;
  bool plans_pages() const;  ///< PolicyInfo::plans_pages

 private:
  struct AsWritten {};
  Spec(std::string_view text, AsWritten);  // of a text that names no recipe
  static Spec of_recipe(std::string_view text);
  static Spec of_file(const Recipe& recipe);
  bool is_bare() const;
  std::unique_ptr<Policy> bare_policy(const Context& context) const;  // without combinators
  Rules rules_without(const Params* left_out, const Context& context) const;
  void check_combinators() const;
  bool set_of_alias(std::string_view name, std::string_view value);
  void share_with_allocation();
  Context within(Context context) const;

  const PolicyInfo* policy_;  // entries of the registry live as long as the program
  Params params_;
  std::vector<std::pair<const CombinatorInfo*, Params>> combinators_;  // in the order written
  std::optional<AllocationSpec> allocation_;  // none: the spec names none; means uniform
  std::shared_ptr<const Scorer> scorer_;
  std::string label_;
  std::string alias_;
};

/// `specs` without duplicates, which have equal text(); a label on one of them stays. Throws
/// UsageError if they differ in it.
std::vector<Spec> each_once(std::vector<Spec> specs);

/// Parses specs separated by ';', with blanks around them, and drops duplicates. `{a,b}` in a spec
/// stands for one spec each (expand_grid()), and `NAME=SPEC` gives a spec a label. "all" stands for
/// every policy that is not an oracle and needs no file, "oracles" for every oracle, each at its
/// defaults. Throws UsageError as Spec() does, for an empty list, and for a label that is no name,
/// is the name of a policy, names several specs, or is one of two of the same spec.
std::vector<Spec> parse_specs(std::string_view list);

}  // namespace kvsim
