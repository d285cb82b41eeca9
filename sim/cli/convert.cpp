#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "sim/base/errors.h"
#include "sim/base/printable.h"
#include "sim/cli/interrupt.h"
#include "sim/cli/options.h"
#include "sim/cli/progress.h"
#include "sim/replay/replay.h"
#include "traces/integrity/convert_trace.h"

namespace kvsim::cli {
namespace {

void check_output(const std::string& trace, const std::string& file) {
  if (file.empty()) throw UsageError("--output: the trace file needs a name");
  std::error_code not_there;
  if (std::filesystem::equivalent(trace, file, not_there)) {
    throw UsageError(fmt::format("--output: {} is the trace itself; name another file", file));
  }
}

}  // namespace

int run_convert(const Verb& verb, const std::vector<std::string>& arguments) {
  po::options_description options(
      "Writes a trace of an earlier version of the format, or of another program, in the newest\n"
      "version, whose digests tell damage: the same numbers, types and gaps. What was its "
      "trace_id\n"
      "is then its trace_id_v1.\n\n"
      "Options");
  options.add_options()("output,o", po::value<std::string>(), "the trace file to write")(
      "quiet,q", "no progress, no notes");
  const auto values = parse(verb, arguments, options, {"TRACE"});
  if (!values) return 0;
  const std::string from = positional_from(verb, *values, "TRACE");
  const std::string file = required_from(verb, *values, "output");
  check_output(from, file);
  const std::atomic<bool>& interrupted = catch_interrupts();
  constexpr std::size_t kWhole = 100;
  LeftOut left_out;
  {
    const Trace trace(from);
    Progress progress(kWhole, "percent", *values);
    left_out = convert_trace(trace, file, [&](std::size_t done, std::size_t total) {
      if (interrupted) throw Interrupted(fmt::format("interrupted; {} is not written", file));
      progress.set(kWhole * done / total);
    });
  }
  if (!left_out.empty() && values->count("quiet") == 0) {
    std::cerr << fmt::format("kvsim: left out, as the format does not know it: {}\n",
                             fmt::join(left_out, ", "));
  }
  const Trace written(file);
  std::cout << fmt::format("{}: version {}, trace_id {}\n", printable(file),
                           written.header().version, written.id());
  return 0;
}

}  // namespace kvsim::cli
