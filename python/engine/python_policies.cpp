#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <bit>
#include <cstdint>

#include "policies/registry/finder.h"
#include "policies/registry/registry.h"
#include "python/engine/bindings.h"
#include "python/engine/python_class.h"
#include "python/engine/python_policy.h"
#include "python/engine/step_view.h"
#include "sim/plugin/c_policy.h"

namespace nb = nanobind;

namespace kvsim::python {
namespace {

/// All that were registered. They are never deleted: see PolicyClass.
std::vector<PolicyClass*>& classes() {
  static std::vector<PolicyClass*> classes;
  return classes;
}

/// At the interpreter's end.
void release_classes() {
  for (PolicyClass* const known : classes()) known->release();
}

void register_class(const nb::object& type, const std::string& name, const std::string& keeps,
                    const std::string& source, const std::vector<Declared>& parameters,
                    const std::vector<std::pair<std::string, std::string>>& presets, bool nests,
                    std::uintptr_t c_function, const std::string& code) {
  PolicyInfo info{.name = name,
                  .keeps = keeps,
                  .source = source,
                  .sees = "what its rules ask for",
                  .differences = {},
                  .params = {}};
  for (const Declared& declared : parameters) info.params.push_back(param_of(declared));
  for (const auto& [preset, settings] : presets) info.presets.push_back({preset, settings, ""});
  if (nests) info.nests = always_nests;
  info.code = code;
  info.origin = "Python";
  auto* const of_type = new PolicyClass(type, name, info.params);
  classes().push_back(of_type);
  const auto function = std::bit_cast<kvsim_update>(c_function);
  info.make = [of_type, function](const Params& params,
                                  const Context& context) -> std::unique_ptr<Policy> {
    if (function == nullptr) return std::make_unique<PythonPolicy>(*of_type, params, context);
    const PythonRules rules = of_type->rules(params, context);
    return std::make_unique<CPolicy>(CFunction{.owner = of_type->owner(params, context),
                                               .rules = rules.rules,
                                               .sees_keys = rules.sees_keys,
                                               .update = function});
  };
  register_policy(std::move(info));
}

}  // namespace

void bind_python_policies(nb::module_& module) {
  nb::class_<StepView>(module, "Step",
                       "One step of a replay, as a policy's `update` sees it: arrays of the tokens "
                       "in the cache, the new one included, that live for the step.")
      .def_prop_ro("index", &StepView::index, "Its number, from 0; token `index` has just arrived.")
      .def_prop_ro("overflow", &StepView::overflow,
                   "How many tokens leave after it; pruning may take more.")
      .def_prop_ro("tokens", &StepView::tokens,
                   "int32 [m]: text positions, ascending; the last one is `index`.")
      .def_prop_ro("attention", &StepView::attention,
                   "float32 [m]: attention over the cache, mean over the group's query heads; if "
                   "the policy selects, over all tokens.")
      .def_prop_ro("full_attention", &StepView::full_attention,
                   "float32 [m]: the same with the softmax over the whole text so far, if "
                   "`rules.sees_full_attention`.")
      .def_prop_ro("keys", &StepView::keys,
                   "float32 [m, head_dim], as recorded, after positional rotation; of the first of "
                   "the heads that the policy decides for.")
      .def_prop_ro("values", &StepView::values,
                   "float32 [m, value_dim] of that head, if `rules.sees_values`.")
      .def_prop_ro("queries", &StepView::queries,
                   "float32 [group, head_dim]: of that head's query heads at this step, after "
                   "positional rotation, if `rules.sees_queries`.")
      .def_prop_ro("kinds", &StepView::kinds,
                   "uint8 [m]: kvsim.TokenKind of each token, if `rules.sees_kinds`.")
      .def_prop_ro("selected", &StepView::selected,
                   "int32 [k]: text positions that the model itself selected at this step, "
                   "ascending, in the cache or not; empty: the model does not select.");
  module.def("register_python_policy", &register_class, nb::arg("type"), nb::kw_only(),
             nb::arg("name"), nb::arg("keeps"), nb::arg("source"), nb::arg("parameters"),
             nb::arg("presets"), nb::arg("nests"), nb::arg("c_function"), nb::arg("code"));
  set_policy_finder(finder_of("find_policy"));
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&release_classes));
}

}  // namespace kvsim::python
