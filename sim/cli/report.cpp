#include "sim/cli/options.h"
#include "sim/cli/python_package.h"
#include "sim/results/store.h"

namespace kvsim::cli {
namespace {

/// The options of kvsim.report, which checks their values.
po::options_description report_options() {
  const auto word = [] { return po::value<std::string>(); };
  po::options_description options("Options");
  options.add_options()("output,o", word(), "the folder for figures and index.html")(
      "trace-id", word(), "the trace to show; its first characters are enough")(
      "sequence", po::value<std::vector<std::string>>(),
      "a sequence to show, again for each; all where none is named")(
      "mode", word(), "as rows name it: stream, stream:every=10, prefill:interval=never")(
      "seed", word(), "of random choices")(
      "budget", word(),
      "of overview, maps, tasks and table, as in 20% or 102; the largest where none is named")(
      "policies", word(),
      "those to show, separated by ';': names, labels, or names with some of their parameters as "
      "in 'h2o:recent=0.25'; all: draw all; where "
      "none is named, the table has all and the figures at most ten")(
      "layer", word(), "of the attention map")("query-head", word(), "of the attention map")(
      "trace", word(), "where the trace is now")(
      "calibration", word(),
      "a result file of kvsim.evaluate with the same model on other texts or policies, to weigh "
      "the errors of layers by; RESULTS.sqlite where none is named and it has such rows")(
      "quiet", "show no progress");
  return options;
}

}  // namespace

int run_report(const Verb& verb, const std::vector<std::string>& arguments) {
  const auto values = parse(verb, arguments, report_options(), {"RESULTS.sqlite"});
  if (!values) return 0;
  const std::string file = positional_from(verb, *values, "RESULTS.sqlite");
  required_from(verb, *values, "output");
  { const ResultStore store(file, ResultStore::Access::read); }  // throws if it is no result file
  run_in_python("kvsim.report", "draws the report", words_of(arguments, *values, "RESULTS.sqlite"));
}

}  // namespace kvsim::cli
