#include "python/engine/request.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <map>

#include "policies/parameters/errors.h"
#include "policies/parameters/nearest.h"

namespace nb = nanobind;

namespace kvsim::python {
namespace {

template <class T>
void take(nb::handle value, const std::string& name, T& field) {
  if (nb::try_cast<T>(value, field)) return;
  throw UsageError(fmt::format("{}: cannot take {}; see the help of the function", name,
                               nb::cast<std::string>(nb::repr(value))));
}

}  // namespace

Options::Options(const nb::dict& options) {
  using Take = std::function<void(nb::handle, const std::string&)>;
  const auto into = [](auto& field) -> Take {
    return [&field](nb::handle value, const std::string& name) { take(value, name, field); };
  };
  const std::map<std::string, Take> fields = {
      {"sequences", into(request.sequences)},
      {"layers", into(request.layers)},
      {"heads", into(request.heads)},
      {"mode", into(request.mode)},
      {"eviction_interval", into(request.eviction_interval)},
      {"seed", into(request.seed)},
      {"allocate", into(request.allocate)},
      {"threads", into(request.threads)},
      {"reference", into(request.reference)},
      {"every", into(request.every)},
      {"device", into(device)},
  };
  std::vector<std::string> names;
  for (const auto& [name, field] : fields) names.push_back(name);
  for (const auto& [key, value] : options) {
    const auto name = nb::cast<std::string>(key);
    const auto found = fields.find(name);
    if (found == fields.end()) {
      throw UsageError(
          fmt::format("there is no option {}; did you mean {}?", name, nearest(name, names)));
    }
    found->second(value, name);
  }
}

SweepRequest request_of(const std::vector<Trace>& traces, const std::string& policies,
                        const std::string& budgets, const Options& options,
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

}  // namespace kvsim::python
