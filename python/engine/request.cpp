#include "python/engine/request.h"

#include <nanobind/stl/vector.h>

#include "python/engine/protocol.h"
#include "python/engine/scratch.h"

namespace nb = nanobind;

namespace kvsim::python {

Options::Options(const nb::dict& options) {
  Fields fields;
  add_fields(request.protocol, fields);
  request.each(
      [&](OptionGroup, const char* name, auto& member, const char*) { fields.add(name, member); });
  fields.add("device", device);
  fields.add("scratch", scratch);
  fields.take(options);
}

SweepRequest request_of(const std::vector<Trace>& traces, const Lists& policies,
                        const Lists& budgets, const Options& options,
                        std::vector<std::string>& notes) {
  SweepRequest request = kvsim::request_of(options.request);
  request.open_traces = traces;
  if (!policies.empty()) {
    PolicyList list = policies_for(request, policies, allocation_of(options.request));
    request.policies = std::move(list.policies);
    notes.insert(notes.end(), list.notes.begin(), list.notes.end());
  }
  if (!budgets.empty()) request.budgets = parse_budgets(budgets);
  return request;
}

Output output_of(const std::optional<std::string>& output, const std::string& command,
                 const Options& options) {
  return {.file = output, .scratch = scratch_in(options.scratch), .command = command};
}

}  // namespace kvsim::python
