#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "policies/registry/needs.h"
#include "policies/registry/registry.h"
#include "policies/registry/spec.h"
#include "python/engine/bindings.h"

namespace nb = nanobind;

namespace kvsim::python {
namespace {

/// Of every parameter (name, default, help, what is allowed).
nb::list parameters_of(const std::vector<Param>& params) {
  nb::list parameters;
  for (const Param& param : params) {
    parameters.append(nb::make_tuple(param.name, param.initial, param.help, param.allowed()));
  }
  return parameters;
}

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

}  // namespace

void bind_policies(nb::module_& module) { module.def("policies", &policies_of_registry); }

}  // namespace kvsim::python
