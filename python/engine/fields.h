#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/base/errors.h"
#include "sim/base/nearest.h"

namespace kvsim::python {

/// Named variables that a dict of keyword arguments sets.
class Fields {
 public:
  template <class T>
  void add(const std::string& name, T& field) {
    take_[name] = [name, &field](nanobind::handle value) {
      if (nanobind::try_cast<T>(value, field)) return;
      throw UsageError(fmt::format("{}: cannot take {}; see the help of the function", name,
                                   nanobind::cast<std::string>(nanobind::repr(value))));
    };
  }

  /// The same of a text that may be given as a number.
  void add_text(const std::string& name, std::string& field) {
    take_[name] = [&field](nanobind::handle value) {
      field = nanobind::cast<std::string>(nanobind::str(value));
    };
  }

  /// Throws UsageError for a key that is not there, naming the nearest, and for a value of another
  /// type.
  void take(const nanobind::dict& given) const {
    for (const auto& [key, value] : given) {
      const auto name = nanobind::cast<std::string>(key);
      const auto found = take_.find(name);
      if (found == take_.end()) fail(name);
      found->second(value);
    }
  }

 private:
  [[noreturn]] void fail(const std::string& name) const {
    std::vector<std::string> names;
    for (const auto& [known, take] : take_) names.push_back(known);
    throw UsageError(
        fmt::format("there is no option {}; did you mean {}?", name, nearest(name, names)));
  }

  std::map<std::string, std::function<void(nanobind::handle)>> take_;
};

}  // namespace kvsim::python
