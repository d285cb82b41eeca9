#pragma once

#include <nanobind/nanobind.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "policies/interface/policy_info.h"

namespace kvsim::python {

/// What kvsim.Rules says.
struct PythonRules {
  Rules rules;
  bool sees_keys = false;
};

/// A class of Python that is in the registry. It is never deleted: specs refer to it, and they may
/// live longer than the interpreter.
class PolicyClass {
 public:
  PolicyClass(nanobind::object type, std::string name, std::vector<Param> params)
      : type_(std::move(type)), name_(std::move(name)), params_(std::move(params)) {}

  /// An object of the class. Needs the GIL; throws what Python raises.
  nanobind::object make(const Params& params, const Context& context) const;

  /// Forgets the class of Python.
  void release() { type_.reset(); }

  /// Whose errors these are: the policy with its parameters, the budget, and the unit if there is
  /// one.
  std::string owner(const Params& params, const Context& context) const;

  /// The rules at these parameters and this budget, which are read once. Takes the GIL; throws what
  /// Python raises.
  PythonRules rules(const Params& params, const Context& context);

 private:
  nanobind::object type_;
  std::string name_;
  std::vector<Param> params_;
  std::map<std::pair<std::string, int>, PythonRules> rules_;  // under the GIL
};

/// Scores by a method of a Python object. It takes the GIL in update() alone. What Python raises
/// gets a note that names the policy, the unit and the step.
class PythonPolicy final : public Policy {
 public:
  PythonPolicy(PolicyClass& type, const Params& params, const Context& context);
  ~PythonPolicy() override;
  PythonPolicy(const PythonPolicy&) = delete;
  PythonPolicy& operator=(const PythonPolicy&) = delete;

  Rules rules() const override { return rules_; }
  void update(const Step& step, std::span<double> scores) override;

 private:
  struct Objects;

  void score(const Step& step, std::span<double> scores);

  PolicyClass& type_;
  Params params_;
  Context context_;
  Rules rules_;
  std::unique_ptr<Objects> objects_;  // made at the first step: most policies only tell their rules
};

}  // namespace kvsim::python
