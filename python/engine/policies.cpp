#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "policies/registry/needs.h"
#include "policies/registry/recipe.h"
#include "policies/registry/registry.h"
#include "policies/registry/spec.h"
#include "policies/registry/spec_list.h"
#include "python/engine/bindings.h"
#include "python/engine/lists.h"
#include "python/engine/python_class.h"
#include "python/engine/scope_name.h"
#include "sim/base/errors.h"
#include "sim/protocol/budget.h"
#include "sim/replay/bytes_budget.h"
#include "sim/results/policy_code.h"
#include "sim/sweep/request/policy_lists.h"
#include "sim/sweep/request/request_options.h"
#include "sim/sweep/selection.h"
#include "sim/sweep/split_tables.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

/// Of every preset (name, its settings, what it reproduces).
nb::list presets_of(const PolicyInfo& policy) {
  nb::list presets;
  for (const Preset& preset : policy.presets) {
    presets.append(nb::make_tuple(preset.name, preset.settings, preset.reproduces));
  }
  return presets;
}

/// A dict per policy: the columns of `kvsim.policies()`.
nb::list policies_of_registry() {
  nb::list rows;
  for (const PolicyInfo& policy : kvsim::policies()) {
    nb::dict row;
    row["name"] = policy.name;
    row["keeps"] = policy.keeps;
    row["source"] = policy.source;
    row["sees"] = policy.sees;
    row["needs"] = needs_note(policy);
    row["differences"] = policy.differences;
    row["parameters"] = parameters_of(policy.params);
    row["presets"] = presets_of(policy);
    row["nests"] = Spec(policy).nests();
    row["oracle"] = policy.make_planner != nullptr;
    row["origin"] = policy.origin;
    row["reference"] = policy.is_reference();
    row["color_place"] = policy.color_place;
    rows.append(row);
  }
  return rows;
}

nb::object text_or_none(const std::string& text) {
  return text.empty() ? nb::none() : nb::object(nb::str(text.data(), text.size()));
}

nb::dict flags_of(const Spec& spec, int budget) {
  const Rules rules = spec.rules({.budget = budget});
  nb::dict flags;
  flags["label"] = text_or_none(spec.label());
  flags["text"] = spec.text();
  flags["policy_code"] = policy_code(spec);
  flags["name"] = spec.policy().name;
  flags["allocation"] = allocation_name(spec.allocation());
  flags["scope"] = scope_name(rules.scope);
  flags["is_oracle"] = spec.is_oracle();
  flags["is_estimator"] = spec.is_estimator();
  flags["is_exact"] = rules.is_exact();
  flags["is_bounded"] = rules.bounded;
  flags["selects"] = rules.selects;
  flags["sees_full_attention"] = rules.sees_full_attention;
  flags["needs_rotation"] = rules.sees_rotation || rules.slot_positions;
  flags["needs"] = nb::cast(names_of(spec.needs()));
  flags["slot_positions"] = rules.slot_positions;
  flags["is_quantised"] = rules.stored.has_value();
  flags["has_store"] = rules.store != nullptr;
  flags["has_rest"] = rules.rest;
  flags["prompt_only"] = rules.prompt_only;
  flags["follows_schedule"] = spec.policy().follows_schedule;
  flags["note"] = text_or_none(alias_note(spec));
  return flags;
}

/// The specs of `lists` that stand there themselves, not as a part of "all" or "oracles".
std::vector<Spec> written_in(const Lists& lists, const AllocationSpec& allocation) {
  const auto none = [] { return std::vector<Spec>(); };
  return policies_in(lists, allocation, {.all = none, .oracles = none}).policies;
}

/// The specs of `lists`, of which "all" and "oracles" leave out what the protocol rules out.
std::vector<Spec> specs_in(const Lists& lists, const AllocationSpec& allocation,
                           const Protocol* protocol) {
  if (protocol == nullptr) return policies_in(lists, allocation).policies;
  SweepRequest request;
  request.protocol = *protocol;
  return policies_for(request, lists, allocation).policies;
}

/// A dict per spec of the lists, in their order, with the flags that its rules have at `budget`.
/// `came_from_list` is "all" or "oracles" if the user wrote no more than that, else None. With a
/// protocol, these lists leave out what it rules out, as in a sweep.
nb::list specs(const Lists& lists, const std::string& allocate, int budget,
               const Protocol* protocol) {
  RequestOptions options;
  options.allocate = allocate;
  const AllocationSpec allocation = allocation_of(options);
  if (lists.empty()) return {};
  const std::vector<Spec> written = written_in(lists, allocation);
  nb::list found;
  for (const Spec& spec : specs_in(lists, allocation, protocol)) {
    const bool is_written = std::any_of(written.begin(), written.end(), [&](const Spec& other) {
      return other.text() == spec.text();
    });
    const Spec identified = with_file_hashes(spec);
    nb::dict row = flags_of(identified, budget);
    row["came_from_list"] = is_written         ? nb::none()
                            : spec.is_oracle() ? nb::object(nb::str("oracles"))
                                               : nb::object(nb::str("all"));
    found.append(row);
  }
  return found;
}

/// Head dimensions of keys and values, bytes of their numbers.
using Vectors = std::tuple<int, int, int, int>;

/// Those of the layers of a sequence that have a cache.
std::vector<Vectors> vectors_of_layers(const Trace& trace, const std::string& sequence) {
  std::vector<Vectors> found;
  for (const LayerInfo& layer : sequence_info(trace, {sequence, 0, 0}).layers) {
    if (layer.kv_from) continue;
    const VectorShape shape = vectors_of(layer);
    found.emplace_back(shape.head_dim, shape.value_dim, shape.key_bytes, shape.value_bytes);
  }
  return found;
}

/// Per budget of the lists, how it was written and what it comes to for a policy on a text. A size
/// needs the vectors of the layers, in all of which it has to be as many tokens.
nb::list budgets_of(const Lists& lists, const Protocol& protocol, int num_tokens, int prompt_length,
                    const std::string& policy, const std::vector<Vectors>& layers) {
  const Spec spec(policy);
  nb::list found;
  for (const Amount& amount : parse_budgets(lists)) {
    std::set<int> budgets;
    for (const auto& [head_dim, value_dim, key_bytes, value_bytes] : layers) {
      if (!amount.is_bytes()) break;
      budgets.insert(budget_of(amount, spec, {head_dim, value_dim, key_bytes, value_bytes},
                               protocol, num_tokens, prompt_length));
    }
    if (budgets.size() > 1) {
      throw UsageError(fmt::format(
          "budget {}: expected as many tokens of {} in every layer, found {} to {}, since layers "
          "have vectors of different sizes; give tokens",
          amount.written(), spec.text(), *budgets.begin(), *budgets.rbegin()));
    }
    const int tokens =
        budgets.empty() ? budget_of(amount, protocol, num_tokens, prompt_length) : *budgets.begin();
    found.append(nb::make_tuple(amount.written(), tokens));
  }
  return found;
}

/// The bytes of a budget that is a size; None for tokens, shares and other texts.
std::optional<std::int64_t> bytes_of_size(const std::string& budget) {
  try {
    const Amount amount = Amount::parse_budget(budget, "budget");
    return amount.is_bytes() ? std::optional(amount.bytes()) : std::nullopt;
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

}  // namespace

void bind_policies(nb::module_& module) {
  module.def("policies", &policies_of_registry);
  module.def("budgets_of", &budgets_of, "budgets"_a, "protocol"_a, "num_tokens"_a,
             "prompt_length"_a, "policy"_a = "full", "layers"_a = std::vector<Vectors>());
  module.def("vectors_of_layers", &vectors_of_layers, "trace"_a, "sequence"_a);
  module.def(
      "recipe", [](const std::string& file) { return read_recipe_file(file).texts; }, "file"_a);
  module.def("bytes_of_size", &bytes_of_size, "budget"_a);
  module.def("specs", &specs, "policies"_a, "allocate"_a, "budget"_a = 1'000'000,
             "protocol"_a.none() = nb::none());
}

}  // namespace kvsim::python
