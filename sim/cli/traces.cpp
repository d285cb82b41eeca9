#include <iostream>

#include "sim/cli/options.h"
#include "sim/cli/python_package.h"

namespace kvsim::cli {
namespace {

/// The options of kvsim.catalogue, which checks their values.
po::options_description trace_options() {
  const auto word = [] { return po::value<std::string>(); };
  po::options_description options("Options");
  options.add_options()("format", word(),
                        "of the list: text, csv, json, or markdown for traces/catalogue.md")(
      "output,o", word(), "get, make: the trace to write; NAME.h5 where none is named")(
      "url", word(),
      "get: where the files are, http, https or file; without it KVSIM_TRACES_URL, then the line "
      "in ~/.config/kvsim/traces_url")("model", word(),
                                       "make: the model's file or folder, if it is elsewhere")(
      "source", word(), "make: the source folder of kvsim, which has the texts; this one")(
      "quiet,q", "show no progress");
  return options;
}

}  // namespace

int run_traces(const Verb& verb, const std::vector<std::string>& arguments) {
  auto values = parse(verb, arguments, trace_options(), {"WORDS"});
  if (!values) {
    std::cout << "\nWithout arguments it lists the traces; get fetches a published one and checks "
                 "its digest, make makes it\nhere, from the model. traces/catalogue.md explains "
                 "the list.\n";
    return 0;
  }
  if (values->count("WORDS") == 0)
    values->insert({"WORDS", po::variable_value(std::vector<std::string>(), false)});
  run_in_python("kvsim.catalogue", "knows the traces", words_of(arguments, *values, "WORDS"));
}

}  // namespace kvsim::cli
