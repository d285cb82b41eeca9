#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <vector>

#include "python/engine/lists.h"
#include "sim/results/sinks/output.h"
#include "sim/sweep/request/policy_lists.h"
#include "sim/sweep/request/request_options.h"

namespace kvsim::python {

/// The options of a dict whose keys are members of RequestOptions, `device` and `scratch`. Throws
/// UsageError for another key, naming the nearest, and for a value of another type.
struct Options {
  explicit Options(const nanobind::dict& options);

  RequestOptions request;
  std::string device = "cpu";
  std::string scratch;  ///< a folder; empty: no choice
};

/// The request of these options, traces and, unless they are empty, lists of policies and budgets.
/// Appends notes for the user.
SweepRequest request_of(const std::vector<Trace>& traces, const Lists& policies,
                        const Lists& budgets, const Options& options,
                        std::vector<std::string>& notes);

/// Where the rows go: the result file `output`, or memory.
Output output_of(const std::optional<std::string>& output, const std::string& command,
                 const Options& options);

}  // namespace kvsim::python
