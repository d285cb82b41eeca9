#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>

#include "oracle/labels/unit_labels.h"
#include "policies/registry/standard_policies.h"
#include "python/engine/arrays.h"
#include "python/engine/bindings.h"
#include "python/engine/request.h"
#include "python/engine/run_engine.h"
#include "sim/base/errors.h"
#include "sim/sweep/in_parallel.h"
#include "sim/sweep/memory.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace kvsim::python {
namespace {

/// The units of a trace that are labelled, and their budgets.
class LabelPlan {
 public:
  LabelPlan(const Trace& trace, const Lists& budgets, int block, const nb::dict& options)
      : block_(block), has_budgets_(!budgets.empty()) {
    if (block < 1)
      throw UsageError("--block: expected at least 1 step, found " + std::to_string(block));
    const Options given(options);
    std::vector<std::string> notes;
    const nb::gil_scoped_release release;
    SweepRequest request = kvsim::request_of(given.request);
    request.open_traces = {trace};
    request.policies = {Spec(recall_optimum())};
    request.budgets = has_budgets_ ? parse_budgets(budgets) : parse_budgets("1");
    plan_ = plan_sweep(std::move(request));
  }

  std::size_t size() const { return plan_.units.size(); }
  int threads() const { return plan_.request.threads; }
  std::string mode() const { return plan_.mode(); }

  /// (sequence, layer, KV head, tokens, [(budget, as it was asked for)]) of each unit.
  nb::list units() const {
    nb::list units;
    for (const PlannedUnit& planned : plan_.units) {
      nb::list budgets;
      for (std::size_t i = 0; has_budgets_ && i < planned.replays.size(); ++i) {
        const PlannedReplay& replay = planned.replays[i];
        budgets.append(nb::make_tuple(replay.budget, replay.budget_request));
      }
      const UnitName& name = planned.unit.name;
      units.append(nb::make_tuple(name.sequence, name.layer, name.kv_head, planned.unit.num_tokens,
                                  budgets));
    }
    return units;
  }

  /// An estimate of the memory that labelling takes, in bytes.
  std::size_t memory_bytes() const {
    std::size_t largest = 0;
    for (const PlannedUnit& planned : plan_.units) {
      const auto n = static_cast<std::size_t>(planned.unit.num_tokens);
      const std::size_t blocks = n / static_cast<std::size_t>(block_) + 1;
      const std::size_t labels = n * (blocks + 2 + 2 * planned.replays.size()) * sizeof(double);
      ReplayShape shape = shape_of(planned.unit);
      shape.oracles = has_budgets_;
      largest = std::max(largest, replay_memory(shape) + 2 * labels);
    }
    return own_memory() + largest * std::min<std::size_t>(threads(), size());
  }

  /// The labels of units first .. first + count - 1, as many at once as there are threads.
  nb::list labels(std::size_t first, std::size_t count) const {
    std::vector<UnitLabels> found(count);
    run_engine(nb::none(), [&](Work& state) {
      const auto backend = make_cpu_backend();
      in_parallel(count, threads(), state.interrupted, [&](std::size_t i) {
        const PlannedUnit& planned = plan_.units[first + i];
        const Unit unit = plan_.traces.front().read_unit(planned.unit.name,
                                                         {.gradients = false, .projection = false});
        const SweepRequest& request = plan_.request;
        const Future future(unit, eviction_steps(unit, request.protocol), *backend,
                            &state.interrupted);
        found[i] = label_unit(future, budgets_of(planned), block_);
      });
    });
    nb::list labels;
    for (std::size_t i = 0; i < count; ++i) {
      labels.append(arrays(plan_.units[first + i], std::move(found[i])));
    }
    return labels;
  }

 private:
  std::vector<int> budgets_of(const PlannedUnit& planned) const {
    std::vector<int> budgets;
    for (std::size_t i = 0; has_budgets_ && i < planned.replays.size(); ++i) {
      budgets.push_back(planned.replays[i].budget);
    }
    return budgets;
  }

  /// The arrays of a unit by name; evicted_after and slot_price have a row per budget.
  static nb::dict arrays(const PlannedUnit& planned, UnitLabels labels) {
    const auto n = static_cast<std::size_t>(planned.unit.num_tokens);
    std::vector<std::int32_t> evicted_after;
    std::vector<double> slot_price;
    for (const Plan& plan : labels.optimal) {
      evicted_after.insert(evicted_after.end(), plan.schedule.begin(), plan.schedule.end());
      // An eviction interval has no prices.
      std::vector<double> prices = plan.slot_price;
      prices.resize(n, std::numeric_limits<double>::quiet_NaN());
      slot_price.insert(slot_price.end(), prices.begin(), prices.end());
    }
    const std::size_t num_budgets = labels.optimal.size();
    AttentionLabels& attention = labels.attention;
    nb::dict found;
    found["future_attention"] = array_of(std::move(attention.future_attention));
    found["future_attention_blocks"] =
        rows_of(std::move(attention.future_attention_blocks), labels.num_blocks, n);
    found["optimal_evicted_after"] = rows_of(std::move(evicted_after), num_budgets, n);
    found["next_access"] = array_of(std::move(attention.next_access));
    found["slot_price"] = rows_of(std::move(slot_price), num_budgets, n);
    return found;
  }

  template <class T>
  static nb::object rows_of(std::vector<T> numbers, std::size_t rows, std::size_t columns) {
    const T* data = numbers.data();
    return array_over(data, {rows, columns}, std::move(numbers));
  }

  int block_;
  bool has_budgets_;
  SweepPlan plan_;
};

}  // namespace

void bind_labels(nb::module_& module) {
  nb::class_<LabelPlan>(module, "LabelPlan")
      .def(nb::init<const Trace&, const Lists&, int, const nb::dict&>(), "trace"_a, "budgets"_a,
           "block"_a, "options"_a)
      .def("size", &LabelPlan::size)
      .def("threads", &LabelPlan::threads)
      .def("mode", &LabelPlan::mode)
      .def("units", &LabelPlan::units)
      .def("memory_bytes", &LabelPlan::memory_bytes)
      .def("labels", &LabelPlan::labels, "first"_a, "count"_a);
}

}  // namespace kvsim::python
