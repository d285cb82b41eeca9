#include "python/engine/python_policy.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>

#include "python/engine/python_class.h"
#include "python/engine/step_view.h"

namespace nb = nanobind;

namespace kvsim::python {
namespace {

nb::object rotation_of(const Context& context) {
  if (!context.rotation) return nb::none();
  nb::list frequencies;
  for (const double frequency : context.rotation->inverse_frequency) frequencies.append(frequency);
  return nb::make_tuple(nb::tuple(frequencies), context.rotation->interleaved,
                        context.rotation->attention_factor);
}

Scope scope_named(const std::string& name) {
  if (name == "layer") return Scope::layer;
  return name == "model" ? Scope::model : Scope::head;
}

// kvsim.Rules has checked the values.
PythonRules rules_from(const nb::object& rules) {
  const auto number = [&](const char* name) { return nb::cast<int>(rules.attr(name)); };
  const auto is = [&](const char* name) { return nb::cast<bool>(rules.attr(name)); };
  const bool selects = is("selects");
  return {{.protect_first = number("protect_first"),
           .protect_newest = number("protect_newest"),
           .drop = number("drop"),
           .bounded = is("bounded") && !selects,
           .sees_full_attention = is("sees_full_attention"),
           .sees_kinds = is("sees_kinds"),
           .sees_values = is("sees_values"),
           .sees_queries = is("sees_queries"),
           .sees_rotation = is("sees_rotation"),
           .prompt_only = is("prompt_only"),
           .selects = selects,
           .prunes = is("prunes"),
           .ignores_interval = is("ignores_interval"),
           .scope = scope_named(nb::cast<std::string>(rules.attr("scope"))),
           .slot_positions = is("slot_positions")},
          is("sees_keys")};
}

void add_note(const nb::python_error& error, const std::string& note) {
  if (!error.matches(PyExc_Exception)) return;  // Ctrl-C is no fault of the policy
  policy_helper("add_note")(error.value(), note);
}

/// Keeps the state that Python has of this thread from one step to the next. Otherwise each step
/// would make a new one, with its own stack.
class ThreadState {
 public:
  /// Not while the thread holds the GIL: its state is kept anyway.
  static void keep() {
    thread_local ThreadState state;
    if (state.thread_ != nullptr) return;
    state.before_ = PyGILState_Ensure();
    if (state.before_ == PyGILState_LOCKED) {
      PyGILState_Release(state.before_);
    } else {
      state.thread_ = PyEval_SaveThread();
    }
  }

  ~ThreadState() {
    if (thread_ == nullptr || !nb::is_alive()) return;
    PyEval_RestoreThread(thread_);
    PyGILState_Release(before_);
  }

 private:
  PyGILState_STATE before_ = PyGILState_UNLOCKED;
  PyThreadState* thread_ = nullptr;
};

}  // namespace

nb::object PolicyClass::make(const Params& params, const Context& context) const {
  return policy_helper("make")(type_, context.budget, context.seed, values_of(params, params_),
                               context.scale, rotation_of(context));
}

std::string PolicyClass::owner(const Params& params, const Context& context) const {
  const std::string values = params.text();
  return fmt::format("policy {}{}{} at budget {}{}{}", name_, values.empty() ? "" : ":", values,
                     context.budget, context.unit.empty() ? "" : ", ", context.unit);
}

PythonRules PolicyClass::rules(const Params& params, const Context& context) {
  const nb::gil_scoped_acquire gil;
  const auto key = std::pair(params.text(), context.budget);
  const auto known = rules_.find(key);
  if (known != rules_.end()) return known->second;
  try {
    const PythonRules rules = rules_from(policy_helper("rules_of")(make(params, context)));
    return rules_.emplace(key, rules).first->second;
  } catch (const nb::python_error& error) {
    add_note(error, owner(params, context) + ", made for its rules");
    throw;
  }
}

struct PythonPolicy::Objects {
  nb::object update;  // bound to the object
  nb::object step;    // `view` as Python has it
  StepView* view;
  TokenArray<double> scores;
};

PythonPolicy::PythonPolicy(PolicyClass& type, const Params& params, const Context& context)
    : type_(type), params_(params), context_(context), rules_(type.rules(params, context).rules) {}

PythonPolicy::~PythonPolicy() {
  if (objects_ == nullptr) return;
  const nb::detail::cleanup_guard gil;
  if (!gil) static_cast<void>(objects_.release());
  objects_.reset();
}

void PythonPolicy::update(const Step& step, std::span<double> scores) {
  // Only where nothing leaves and nothing is measured: the scores decide nothing.
  if (step.attention.empty()) return;
  ThreadState::keep();
  const nb::gil_scoped_acquire gil;
  try {
    score(step, scores);
  } catch (const nb::python_error& error) {
    add_note(error, fmt::format("{}, step {}", type_.owner(params_, context_), step.index));
    throw;
  }
}

void PythonPolicy::score(const Step& step, std::span<double> scores) {
  if (objects_ == nullptr) {
    const nb::object policy = type_.make(params_, context_);
    nb::object view = nb::cast(new StepView(rules_), nb::rv_policy::take_ownership);
    StepView* const seen = nb::cast<StepView*>(view);
    objects_ = std::make_unique<Objects>(
        Objects{.update = policy.attr("update"), .step = std::move(view), .view = seen});
  }
  Objects& objects = *objects_;
  double* const written = objects.scores.reserve(scores.size());
  std::ranges::copy(scores, written);
  const StepView::Shown shown(*objects.view, step);
  const nb::object result = objects.update(objects.step, objects.scores.first(scores.size()));
  if (!result.is_none()) {
    raise_value_error("update: expected new values written into scores, found something returned");
  }
  const std::span<const double> found(written, scores.size());
  const auto is_nan = [](double score) { return std::isnan(score); };
  const auto wrong = std::ranges::find_if(found, is_nan);
  if (wrong != found.end()) {
    const auto slot = wrong - found.begin();
    raise_value_error(fmt::format("update: expected numbers, found NaN as the score of token {}",
                                  step.tokens[static_cast<std::size_t>(slot)]));
  }
  std::ranges::copy(found, scores.begin());
}

}  // namespace kvsim::python
