#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "gpu/cuda/choose_backend.h"
#include "python/engine/arrays.h"
#include "python/engine/bindings.h"
#include "python/engine/python_class.h"
#include "python/engine/request.h"
#include "python/engine/run_engine.h"
#include "sim/sweep/fetch_table.h"
#include "sim/sweep/run_fetches.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

/// A dict per selector that there is.
nb::list selectors_of_table() {
  nb::list rows;
  for (const SelectorInfo& selector : kvsim::selectors()) {
    nb::dict row;
    row["name"] = selector.name;
    row["chooses"] = selector.chooses;
    row["source"] = selector.source;
    row["parameters"] = parameters_of(selector.params);
    row["origin"] = selector.origin;
    rows.append(row);
  }
  return rows;
}

/// A dict per selector: its canonical text, its code, how many older tokens a step attends to
/// (None: that depends on the text), and whether it samples.
nb::list selector_specs(const Lists& select) {
  nb::list found;
  for (const SelectorSpec& selector : parse_selectors(select)) {
    nb::dict flags;
    flags["text"] = selector.text();
    flags["policy_code"] = selector_code(selector);
    flags["attended"] = nb::cast(selector.attended());
    flags["samples"] = selector.info().samples;
    found.append(flags);
  }
  return found;
}

/// What each step of a unit attends to.
struct Attended {
  std::string select;
  int layer = 0;
  int kv_head = 0;
  std::vector<std::int64_t> offsets;  // per step and one more
  std::vector<std::int32_t> tokens;   // of step t from offsets[t] to offsets[t + 1]
};

Attended attended_of(const PageChoices& choices, const std::string& select, const UnitName& unit) {
  Attended attended{.select = select, .layer = unit.layer, .kv_head = unit.kv_head};
  attended.offsets.assign(static_cast<std::size_t>(choices.first_measured) + 1, 0);
  const auto add = [&](int begin, int end) {
    const auto before = std::ssize(attended.tokens);
    attended.tokens.resize(static_cast<std::size_t>(before + end - begin));
    std::iota(attended.tokens.begin() + before, attended.tokens.end(), begin);
  };
  for (int step = choices.first_measured; step < choices.num_tokens; ++step) {
    for (const std::int32_t page : choices.at(step)) {
      add(page * choices.page, (page + 1) * choices.page);
    }
    add(step / choices.page * choices.page, step + 1);
    attended.offsets.push_back(std::ssize(attended.tokens));
  }
  return attended;
}

/// What the steps of a trace's units attend to: (selector, layer, KV head, offsets [n + 1], tokens)
/// each, ordered. A step of a prompt has no tokens: it attends to all. The options select one
/// sequence.
nb::list choices(const Trace& trace, const Lists& select, const nb::dict& options,
                 const nb::object& progress) {
  const Options given(options);
  std::vector<std::string> notes;
  std::vector<Attended> found;
  run_engine(progress, [&](Work& state) {
    const auto backend = choose_backend(given.device);
    const FetchPlan plan = plan_fetches(request_of({trace}, {}, {}, given, notes),
                                        {.selectors = parse_selectors(select), .choices = true});
    state.total = plan.sweep.units.size();
    run_fetches(plan, *backend, state.interrupted,
                [&](const PlannedUnit& planned, const std::vector<Fetches>& fetches,
                    const std::vector<TableRows>&) {
                  for (std::size_t i = 0; i < fetches.size(); ++i) {
                    found.push_back(attended_of(fetches[i].choices, plan.fetch.selectors[i].text(),
                                                planned.unit.name));
                  }
                  ++state.done;
                });
  });
  const auto key = [](const Attended& of) { return std::tie(of.select, of.layer, of.kv_head); };
  std::sort(found.begin(), found.end(),
            [&](const Attended& a, const Attended& b) { return key(a) < key(b); });
  nb::list rows;
  for (Attended& of : found) {
    rows.append(nb::make_tuple(of.select, of.layer, of.kv_head, array_of(std::move(of.offsets)),
                               array_of(std::move(of.tokens))));
  }
  return rows;
}

}  // namespace

void bind_choices(nb::module_& module) {
  module.def("selectors", &selectors_of_table);
  module.def("selector_specs", &selector_specs, "select"_a);
  module.def("choices", &choices, "trace"_a, "select"_a, "options"_a, "progress"_a.none());
}

}  // namespace kvsim::python
