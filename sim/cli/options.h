#pragma once

#include <boost/program_options.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policies/registry/spec.h"
#include "sim/attention/attention.h"
#include "sim/cli/verb.h"
#include "sim/results/local_disk/scratch.h"
#include "sim/sweep/request/request_options.h"

namespace kvsim::cli {

namespace po = boost::program_options;

/// Parses a verb's arguments. Positional ones go to the options named in `positional`, in order,
/// and the last of them takes all that follow. Prints the help and returns nothing if --help is
/// among them. Options that are not among them come from the file of --config. Loads the plug-ins
/// of --plugin. Throws UsageError or
/// po::error; an unknown option names the nearest one.
std::optional<po::variables_map> parse(const Verb& verb, const std::vector<std::string>& arguments,
                                       po::options_description options,
                                       const std::vector<std::string>& positional);

/// The options of a verb.
po::options_description options_of(const Verb& verb);

/// The options that verbs share.
po::options_description selection_options();  ///< --sequences, --layers, --heads
po::options_description run_options();        ///< --device, --threads
po::options_description replay_options();     ///< --mode, --seed, --allocate
po::options_description measuring_options();  ///< --reference, --every
po::options_description shard_options();      ///< --shard
po::options_description scratch_options();    ///< --scratch
po::options_description plugin_options();     ///< --plugin, which parse() loads

/// The values of those of them that the verb has.
RequestOptions options_from(const po::variables_map& values);

/// Where a result file is written while the verb runs; tells on standard error.
Scratch scratch_from(const po::variables_map& values);

/// The back-end of --device. Throws std::runtime_error if there is no such device.
std::unique_ptr<Backend> backend_from(const po::variables_map& values);

/// The value of `option`, which must be one of `choices`.
std::string choice_from(const po::variables_map& values, const std::string& option,
                        const std::vector<std::string>& choices);

/// The values of the positional argument `name`. Throws UsageError if there is none.
std::vector<std::string> positionals_from(const Verb& verb, const po::variables_map& values,
                                          const std::string& name);

/// The same if exactly one value is allowed.
std::string positional_from(const Verb& verb, const po::variables_map& values,
                            const std::string& name);

/// The value of a required option. Throws UsageError if it is missing.
std::string required_from(const Verb& verb, const po::variables_map& values,
                          const std::string& option);

/// All values of a required option that may be repeated. Throws UsageError if it is missing.
std::vector<std::string> all_from(const Verb& verb, const po::variables_map& values,
                                  const std::string& option);

}  // namespace kvsim::cli
