#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <tuple>
#include <vector>

#include "policies/parameters/params.h"
#include "sim/base/finder.h"

namespace kvsim::python {

/// A function of the package kvsim.policy, which deals with classes of Python. Needs the GIL, as
/// all below.
nanobind::object policy_helper(const char* name);

/// Asks a function of that package for a name. What Python raises becomes a UsageError.
Finder finder_of(const char* helper);

/// Name, kind, default and choices of a parameter: kvsim.policy_parameters.Parameter.
using Declared = std::tuple<std::string, std::string, nanobind::object, std::vector<std::string>>;

Param param_of(const Declared& declared);

/// Of every parameter (name, default, help, what is allowed).
nanobind::list parameters_of(const std::vector<Param>& params);

/// The values of the declared parameters, by name.
nanobind::dict values_of(const Params& params, const std::vector<Param>& declared);

/// Raises ValueError in Python.
[[noreturn]] void raise_value_error(const std::string& message);

}  // namespace kvsim::python
