#include "python/engine/python_selector.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "python/engine/bindings.h"
#include "sim/tiers/selectors.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

nb::object helper(const char* name) { return nb::module_::import_("kvsim.policy").attr(name); }

nb::dict values_of(const Params& params, const std::vector<Param>& declared) {
  nb::dict values;
  for (const Param& param : declared) {
    nb::object value;
    if (param.type == Param::Type::integer) {
      value = nb::int_(params.integer(param.name));
    } else if (param.type == Param::Type::real) {
      value = nb::float_(params.real(param.name));
    } else {
      value = nb::cast(params.text(param.name));
    }
    values[param.name.c_str()] = value;
  }
  return values;
}

/// A read-only array of its own.
template <class T>
nb::object array_of(std::vector<T> numbers, std::vector<std::size_t> shape) {
  auto* const kept = new std::vector<T>(std::move(numbers));
  const nb::capsule owner(kept,
                          [](void* data) noexcept { delete static_cast<std::vector<T>*>(data); });
  return nb::cast(nb::ndarray<nb::numpy, const T, nb::c_contig>(kept->data(), shape.size(),
                                                                shape.data(), owner));
}

[[noreturn]] void raise_value_error(const std::string& message) {
  PyErr_SetString(PyExc_ValueError, message.c_str());
  throw nb::python_error();
}

/// Name, kind, default and choices of a parameter, as of policies.
using Declared = std::tuple<std::string, std::string, nb::object, std::vector<std::string>>;

Param param_of(const Declared& declared) {
  const auto& [name, kind, initial, choices] = declared;
  if (name == "k") {
    Param param = number_param();
    param.initial = nb::cast<std::string>(nb::str(initial));
    return param;
  }
  if (name == "page") return page_param(nb::cast<int>(initial));
  if (kind == "real") {
    constexpr double kMost = std::numeric_limits<double>::infinity();
    return Param::real(name, nb::cast<double>(initial), -kMost, kMost, "");
  }
  if (kind == "integer") {
    using Limits = std::numeric_limits<int>;
    return Param::integer(name, nb::cast<int>(initial), Limits::min(), Limits::max(), "");
  }
  if (kind == "text") return Param::text(name, "", nb::cast<std::string>(initial));
  Param param = Param::choice(name, choices, "");
  param.initial = nb::cast<std::string>(initial);
  return param;
}

std::vector<SelectorClass*>& classes() {
  static std::vector<SelectorClass*> classes;
  return classes;
}

void release_classes() {
  for (SelectorClass* const known : classes()) known->release();
}

void register_class(const nb::object& type, const std::string& name, const std::string& chooses,
                    const std::string& source, const std::vector<Declared>& parameters) {
  SelectorInfo info{.name = name, .chooses = chooses, .source = source, .origin = "Python"};
  for (const Declared& declared : parameters) info.params.push_back(param_of(declared));
  auto* const of_type = new SelectorClass(type, name, info.params);
  classes().push_back(of_type);
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
  return helper("make_selector")(type_, values_of(params, params_), seed, unit.scale);
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
      helper("add_note")(
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
    objects_->choose = type_.make(params_, unit_, seed_).attr("choose");
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
  const std::size_t count = step.candidates.size();
  const nb::object seen = helper("SelectorStep")(
      step.step, array_of<std::int32_t>({step.candidates.begin(), step.candidates.end()}, {count}),
      array_of(std::move(attention), {count}),
      array_of(std::move(queries), {unit_.query.size(), dims}),
      objects_->keys.first(static_cast<std::size_t>(step.step) + 1));
  chosen = nb::cast<std::vector<std::int32_t>>(helper("chosen_pages")(objects_->choose(seen)));
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
  module.def("register_python_selector", &register_class, "type"_a, "name"_a, "chooses"_a,
             "source"_a, "parameters"_a);
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&release_classes));
}

}  // namespace kvsim::python
