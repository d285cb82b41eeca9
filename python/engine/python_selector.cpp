#include "python/engine/python_selector.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "python/engine/arrays.h"
#include "python/engine/bindings.h"
#include "python/engine/python_class.h"
#include "sim/tiers/selector_finder.h"
#include "sim/tiers/selectors.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

/// `k` and `page` are those of every selector.
Param selector_param_of(const Declared& declared) {
  const auto& [name, kind, initial, choices] = declared;
  if (name == "page") return page_param(nb::cast<int>(initial));
  if (name != "k") return param_of(declared);
  Param param = number_param();
  param.initial = nb::cast<std::string>(nb::str(initial));
  return param;
}

std::vector<SelectorClass*>& selector_classes() {
  static std::vector<SelectorClass*> classes;
  return classes;
}

void release_selectors() {
  for (SelectorClass* const known : selector_classes()) known->release();
}

void register_class_of_selectors(const nb::object& type, const std::string& name,
                                 const std::string& chooses, const std::string& source,
                                 const std::string& code, const std::vector<Declared>& parameters) {
  SelectorInfo info{
      .name = name, .chooses = chooses, .source = source, .origin = "Python", .code = code};
  for (const Declared& declared : parameters) info.params.push_back(selector_param_of(declared));
  auto* const of_type = new SelectorClass(type, name, info.params);
  selector_classes().push_back(of_type);
  info.make = [of_type](const Params& params, const SelectorContext& context) {
    return std::make_unique<PythonSelector>(*of_type, params, context);
  };
  info.summary_bytes = [of_type](const Params& params, const Unit& unit) {
    return of_type->summary_bytes(params, unit);
  };
  register_selector(std::move(info));
}

}  // namespace

nb::object SelectorClass::make(const Params& params, const Unit& unit, std::uint64_t seed) const {
  return policy_helper("make_selector")(type_, values_of(params, params_), seed, unit.scale,
                                        params.integer("page"));
}

std::int64_t SelectorClass::summary_bytes(const Params& params, const Unit& unit) const {
  const nb::gil_scoped_acquire gil;
  const nb::object bytes =
      make(params, unit, 0)
          .attr("summary_bytes")(unit.num_tokens(), static_cast<int>(unit.key.cols()),
                                 unit.key_bytes);
  return nb::cast<std::int64_t>(bytes);
}

std::optional<std::size_t> SelectorClass::limit(const Params& params) const {
  const bool has_number = std::any_of(params_.begin(), params_.end(),
                                      [](const Param& param) { return param.name == "k"; });
  if (!has_number) return {};
  return static_cast<std::size_t>(pages_of(params));
}

struct PythonSelector::Objects {
  nb::object choose;  // bound to the object
  TokenArray<const float> keys;
  float* key_rows = nullptr;
  int num_keys = 0;  // filled in
};

PythonSelector::PythonSelector(const SelectorClass& type, const Params& params,
                               const SelectorContext& context)
    : type_(type),
      params_(params),
      unit_(context.unit),
      seed_(context.seed),
      limit_(type.limit(params)) {}

PythonSelector::~PythonSelector() {
  if (objects_ == nullptr) return;
  const nb::detail::cleanup_guard gil;
  if (!gil) static_cast<void>(objects_.release());
  objects_.reset();
}

void PythonSelector::choose(const SelectorStep& step, std::vector<std::int32_t>& chosen) {
  const nb::gil_scoped_acquire gil;
  try {
    ask(step, chosen);
  } catch (const nb::python_error& error) {
    if (error.matches(PyExc_Exception)) {
      const UnitName& name = unit_.name;
      policy_helper("add_note")(
          error.value(),
          fmt::format("selector {}:{}, {} layer {} KV head {}, step {}", type_.name(),
                      params_.text(), name.sequence, name.layer, name.kv_head, step.step));
    }
    throw;
  }
}

void PythonSelector::ask(const SelectorStep& step, std::vector<std::int32_t>& chosen) {
  const auto dims = static_cast<std::size_t>(unit_.key.cols());
  if (objects_ == nullptr) {
    objects_ = std::make_unique<Objects>();
    objects_->choose = type_.make(params_, unit_, seed_).attr("_step");
    objects_->key_rows = objects_->keys.reserve(static_cast<std::size_t>(unit_.num_tokens()), dims);
  }
  // Rows of later tokens stay 0: nobody sees the future.
  for (int& token = objects_->num_keys; token <= step.step; ++token) {
    std::copy_n(unit_.key.row(token).data(), dims,
                objects_->key_rows + static_cast<std::size_t>(token) * dims);
  }
  std::vector<float> queries;
  for (const Matrix& query : unit_.query) {
    const float* row = query.row(step.step).data();
    queries.insert(queries.end(), row, row + dims);
  }
  std::vector<double> attention;
  for (const std::int32_t page : step.candidates) attention.push_back(step.attention[page]);
  const float* const rows = queries.data();
  const nb::object seen = policy_helper("SelectorStep")(
      step.step,
      array_of(std::vector<std::int32_t>(step.candidates.begin(), step.candidates.end())),
      array_of(std::move(attention)),
      array_over(rows, {unit_.query.size(), dims}, std::move(queries)),
      objects_->keys.first(static_cast<std::size_t>(step.step) + 1));
  chosen =
      nb::cast<std::vector<std::int32_t>>(policy_helper("chosen_pages")(objects_->choose(seen)));
  for (const std::int32_t page : chosen) {
    if (std::binary_search(step.candidates.begin(), step.candidates.end(), page)) continue;
    raise_value_error(fmt::format("choose: expected pages out of step.pages, found {}", page));
  }
  if (limit_ && chosen.size() > *limit_) {
    raise_value_error(fmt::format("choose: expected at most the {} pages of k, found {}", *limit_,
                                  chosen.size()));
  }
}

void bind_python_selectors(nb::module_& module) {
  module.def("register_python_selector", &register_class_of_selectors, "type"_a, "name"_a,
             "chooses"_a, "source"_a, "code"_a, "parameters"_a);
  set_selector_finder(finder_of("find_selector"));
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&release_selectors));
}

}  // namespace kvsim::python
