#include "python/engine/python_class.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <limits>

#include "sim/base/errors.h"

namespace nb = nanobind;

namespace kvsim::python {

nb::object policy_helper(const char* name) {
  return nb::module_::import_("kvsim.policy").attr(name);
}

Finder finder_of(const char* helper) {
  return [helper](std::string_view name) {
    const nb::gil_scoped_acquire gil;
    try {
      return nb::cast<bool>(policy_helper(helper)(nb::str(name.data(), name.size())));
    } catch (const nb::python_error& error) {
      if (!error.matches(PyExc_Exception)) throw;
      throw UsageError(nb::cast<std::string>(nb::str(error.value())));
    }
  };
}

Param param_of(const Declared& declared) {
  const auto& [name, kind, initial, choices] = declared;
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

nb::list parameters_of(const std::vector<Param>& params) {
  nb::list parameters;
  for (const Param& param : params) {
    parameters.append(nb::make_tuple(param.name, param.initial, param.help, param.allowed()));
  }
  return parameters;
}

nb::dict values_of(const Params& params, const std::vector<Param>& declared) {
  nb::dict values;
  for (const Param& param : declared) {
    nb::object value;
    switch (param.type) {
      case Param::Type::integer:
        value = nb::int_(params.integer(param.name));
        break;
      case Param::Type::real:
        value = nb::float_(params.real(param.name));
        break;
      default:
        value = nb::cast(params.text(param.name));
    }
    values[param.name.c_str()] = value;
  }
  return values;
}

void raise_value_error(const std::string& message) {
  PyErr_SetString(PyExc_ValueError, message.c_str());
  throw nb::python_error();
}

}  // namespace kvsim::python
