#include "policies/registry/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <shared_mutex>

#include "policies/registry/aliases.h"
#include "policies/registry/finder.h"
#include "policies/registry/recipe.h"
#include "policies/registry/source_digest.h"
#include "sim/base/errors.h"
#include "sim/base/nearest.h"

namespace kvsim {

// One line per policy or combinator: NAME stands for the function NAME_policy() or
// NAME_combinator() that its file defines. A table is used because a linker drops objects that
// register themselves from a static library if nothing refers to them. A policy also has its place
// among the colours of figures, which it keeps: a new one takes the next place. References, as topk
// is one, have places of their own, with the oracles of oracle/oracles.cpp.
#define KVSIM_POLICIES(POLICY)   \
  POLICY(full, 18)               \
  POLICY(window, 0)              \
  POLICY(sink, 3)                \
  POLICY(random, 14)             \
  POLICY(reservoir, 21)          \
  POLICY(lru, 6)                 \
  POLICY(lfu, 7)                 \
  POLICY(h2o, 1)                 \
  POLICY(strided, 15)            \
  POLICY(fixed, 16)              \
  POLICY(topk, 6)                \
  POLICY(spatten, 13)            \
  POLICY(scissorhands, 4)        \
  POLICY(tova, 2)                \
  POLICY(subgen, 8)              \
  POLICY(kcenter, 9)             \
  POLICY(fastgen, 12)            \
  POLICY(snapkv, 5)              \
  POLICY(knorm, 11)              \
  POLICY(keydiff, 10)            \
  POLICY(valuediff, 19)          \
  POLICY(vatp, 22)               \
  POLICY(expected_attention, 23) \
  POLICY(lookback, 20)           \
  POLICY(obcache, 26)            \
  POLICY(r_kv, 24)               \
  POLICY(triattention, 25)       \
  POLICY(kvzip, 27)              \
  POLICY(learned, 28)            \
  POLICY(schedule, 17)

#define KVSIM_COMBINATORS(COMBINATOR) \
  COMBINATOR(merge)                   \
  COMBINATOR(protect)                 \
  COMBINATOR(quant)                   \
  COMBINATOR(kivi)                    \
  COMBINATOR(kvquant)                 \
  COMBINATOR(mikv)                    \
  COMBINATOR(rest)                    \
  COMBINATOR(shared)                  \
  COMBINATOR(turboquant)              \
  COMBINATOR(critical)                \
  COMBINATOR(chunk)                   \
  COMBINATOR(threshold)

#define KVSIM_DECLARE_POLICY(name, place) PolicyInfo name##_policy();
#define KVSIM_DECLARE_COMBINATOR(name) CombinatorInfo name##_combinator();
KVSIM_POLICIES(KVSIM_DECLARE_POLICY)
KVSIM_COMBINATORS(KVSIM_DECLARE_COMBINATOR)

namespace {

template <class Table>
auto known(const Table& table, std::string_view name) {
  return std::find_if(table.begin(), table.end(),
                      [&](const auto& info) { return info.name == name; });
}

template <class Table>
const auto& find(const Table& table, std::string_view name, std::string_view kind) {
  const auto found = known(table, name);
  if (found != table.end()) return *found;
  std::vector<std::string> names;
  for (const auto& info : table) names.push_back(info.name);
  throw UsageError(fmt::format("unknown {} '{}'; did you mean '{}'? (kvsim policies lists them)",
                               kind, name, nearest(name, names)));
}

template <class Info>
Info with_code(Info info, const char* name) {
  info.code = source_digest(fmt::format("policies/{}.cpp", name));
  return info;
}

PolicyInfo with_place(PolicyInfo policy, int place) {
  policy.color_place = place;
  return policy;
}

/// Replays look policies up while Python or a plug-in may register others.
std::shared_mutex& table_mutex() {
  static std::shared_mutex mutex;
  return mutex;
}

Finder& finder() {
  static Finder finder;
  return finder;
}

std::list<PolicyInfo>& policy_table() {
#define KVSIM_CALL(name, place) with_place(with_code(name##_policy(), #name), place),
  static std::list<PolicyInfo> table{KVSIM_POLICIES(KVSIM_CALL)};
#undef KVSIM_CALL
  return table;
}

bool is_policy_name(std::string_view name) {
  const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
  return !name.empty() && is_lower(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return is_lower(c) || (c >= '0' && c <= '9') || c == '-' || c == '_';
         });
}

}  // namespace

const std::list<PolicyInfo>& policies() { return policy_table(); }

void add_to_registry(const std::vector<PolicyInfo>& oracles) {
  std::list<PolicyInfo>& table = policy_table();
  for (const PolicyInfo& oracle : oracles) {
    const auto same = [&](const PolicyInfo& known) { return known.name == oracle.name; };
    if (std::none_of(table.begin(), table.end(), same)) table.push_back(oracle);
  }
}

void register_policy(PolicyInfo policy) {
  const auto refuse = [&](std::string_view reason) {
    throw UsageError(
        fmt::format("policy '{}' of {}: {}; choose another", policy.name, policy.origin, reason));
  };
  if (!is_policy_name(policy.name)) {
    refuse("expected a name of lower-case letters, digits, '-' and '_' that begins with a letter");
  }
  if (find_alias(policy.name) != nullptr || policy.name == kAllPolicies ||
      policy.name == kAllOracles || policy.name == kRecipe) {
    refuse("the name has a meaning in lists of policies");
  }
  const std::unique_lock lock(table_mutex());
  std::list<PolicyInfo>& table = policy_table();
  static std::list<PolicyInfo> replaced;  // specs refer to them
  const auto earlier = std::find_if(table.begin(), table.end(), [&](const PolicyInfo& known) {
    return known.name == policy.name;
  });
  if (earlier == table.end()) {
    table.push_back(std::move(policy));
    return;
  }
  if (earlier->origin != policy.origin) {
    refuse(earlier->origin.empty() ? "a policy that is built in has this name"
                                   : "a policy of " + earlier->origin + " has this name");
  }
  table.insert(earlier, std::move(policy));
  replaced.splice(replaced.end(), table, earlier);
}

std::span<const CombinatorInfo> combinators() {
#define KVSIM_CALL(name) with_code(name##_combinator(), #name),
  static const std::vector<CombinatorInfo> table{KVSIM_COMBINATORS(KVSIM_CALL)};
#undef KVSIM_CALL
  return table;
}

const PolicyInfo& find_policy(std::string_view name) {
  if (name.find('/') != std::string_view::npos || name.ends_with(".so")) {
    throw UsageError(
        fmt::format("unknown policy '{0}'; if it is a plug-in, load it with --plugin {0} and name "
                    "a policy that "
                    "it has (kvsim --plugin {0} policies lists them)",
                    name));
  }
  const auto is_known = [&] {
    const std::shared_lock lock(table_mutex());
    return known(policies(), name) != policies().end();
  };
  if (finder() && !is_known()) finder()(name);
  const std::shared_lock lock(table_mutex());
  return find(policies(), name, "policy");
}

void set_policy_finder(Finder asked) { finder() = std::move(asked); }

const CombinatorInfo& find_combinator(std::string_view name) {
  return find(combinators(), name, "combinator");
}

}  // namespace kvsim
