#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

namespace kvsim::python {

/// Policies or budgets as Python gives them: one text, which may be a list as the program takes
/// it, or several.
struct Lists : std::vector<std::string> {};

}  // namespace kvsim::python

namespace nanobind::detail {

template <>
struct type_caster<kvsim::python::Lists> {
  NB_TYPE_CASTER(kvsim::python::Lists, const_name("str | list[str]"))

  bool from_python(handle source, uint8_t flags, cleanup_list* cleanup) noexcept {
    std::vector<std::string>& texts = value;
    make_caster<std::string> one;
    if (one.from_python(source, flags, cleanup)) {
      texts.clear();
      if (!one.value.empty()) texts.push_back(std::move(one.value));
      return true;
    }
    make_caster<std::vector<std::string>> several;
    if (!several.from_python(source, flags, cleanup)) return false;
    texts = std::move(several.value);
    return true;
  }
};

}  // namespace nanobind::detail
