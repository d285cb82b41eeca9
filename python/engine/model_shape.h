#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "sim/base/errors.h"
#include "sim/running/model_shape.h"

namespace kvsim::python {

namespace nb = nanobind;

/// A number or text of a dict. Throws UsageError for one of another type or size.
template <class T>
T take(const nb::dict& from, const char* name, std::optional<T> otherwise = {}) {
  if (!from.contains(name)) {
    if (otherwise) return *otherwise;
    throw UsageError(fmt::format("{}: expected one, found none", name));
  }
  T value{};
  if (nb::try_cast<T>(from[name], value)) return value;
  throw UsageError(
      fmt::format("{}: cannot take {}", name, nb::cast<std::string>(nb::repr(from[name]))));
}

inline void require(bool holds, const std::string& what) {
  if (!holds) throw UsageError(what);
}

/// The shape of a model, from a dict of what it has in common and a dict for each layer with a
/// cache. Throws UsageError.
ModelShape shape_of(const nb::dict& given);

/// From a dict of inv_freq, style and attention_factor; None: unknown.
std::optional<Rope> rope_of(const nb::handle& given);
nb::object dict_of(const std::optional<Rope>& rope);

}  // namespace kvsim::python
