#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/engine/step_view.h"
#include "sim/tiers/selector.h"

namespace kvsim::python {

/// A class of Python that is in the table of selectors. It is never deleted: specs refer to it, and
/// they may live longer than the interpreter.
class SelectorClass {
 public:
  SelectorClass(nanobind::object type, std::string name, std::vector<Param> params)
      : type_(std::move(type)), name_(std::move(name)), params_(std::move(params)) {}

  /// An object of the class. Needs the GIL; throws what Python raises.
  nanobind::object make(const Params& params, const Unit& unit, std::uint64_t seed) const;

  /// What an object of the class says that the device holds for it. Takes the GIL.
  std::int64_t summary_bytes(const Params& params, const Unit& unit) const;

  /// Forgets the class of Python.
  void release() { type_.reset(); }

  const std::string& name() const { return name_; }

  /// The most pages that it may choose, if it has a parameter `k`.
  std::optional<std::size_t> limit(const Params& params) const;

 private:
  nanobind::object type_;
  std::string name_;
  std::vector<Param> params_;
};

/// Chooses by a method of a Python object. It takes the GIL in choose() alone. What Python raises
/// gets a note that names the selector, the unit and the step.
class PythonSelector final : public Selector {
 public:
  PythonSelector(const SelectorClass& type, const Params& params, const SelectorContext& context);
  ~PythonSelector() override;
  PythonSelector(const PythonSelector&) = delete;
  PythonSelector& operator=(const PythonSelector&) = delete;

  void choose(const SelectorStep& step, std::vector<std::int32_t>& chosen) override;

 private:
  struct Objects;

  void ask(const SelectorStep& step, std::vector<std::int32_t>& chosen);

  const SelectorClass& type_;
  Params params_;
  const Unit& unit_;
  std::uint64_t seed_;
  std::optional<std::size_t> limit_;
  std::unique_ptr<Objects> objects_;  // made at the first step
};

}  // namespace kvsim::python
