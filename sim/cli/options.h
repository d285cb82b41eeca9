#pragma once

#include <boost/program_options.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policies/spec.h"
#include "sim/cli/verb.h"
#include "sim/core/attention.h"
#include "sim/core/replay.h"
#include "sim/core/selection.h"

namespace kvsim::cli {

namespace po = boost::program_options;

/// Parses a verb's arguments. Positional ones go to the options named in `positional`, in order,
/// and the last of them takes all that follow. Prints the help and returns nothing if --help is
/// among them. Throws UsageError or po::error; an unknown option names the nearest one.
std::optional<po::variables_map> parse(const Verb& verb, const std::vector<std::string>& arguments,
                                       po::options_description options,
                                       const std::vector<std::string>& positional);

/// The options that verbs share.
po::options_description selection_options();  ///< --sequences, --layers, --heads
po::options_description run_options();        ///< --device, --threads
po::options_description replay_options();     ///< --mode, --seed, --allocate
po::options_description measuring_options();  ///< --reference, --every

Selection selection_from(const po::variables_map& values);
Mode mode_from(const po::variables_map& values);
Measuring measuring_from(const po::variables_map& values);

/// The policies with the split that --allocate asks for, except where a spec names one itself.
std::vector<Spec> allocated(std::vector<Spec> policies, const po::variables_map& values);

std::int64_t seed_from(const po::variables_map& values);
int threads_from(const po::variables_map& values);

/// Throws std::runtime_error if the device is not there.
std::unique_ptr<Backend> backend_from(const po::variables_map& values);

/// The value of `option`, which must be one of `choices`.
std::string choice_from(const po::variables_map& values, const std::string& option,
                        const std::vector<std::string>& choices);

/// All that was given for the positional `name`, at least one. Throws UsageError.
std::vector<std::string> words_from(const Verb& verb, const po::variables_map& values,
                                    const std::string& name);

/// The same where exactly one is expected.
std::string word_from(const Verb& verb, const po::variables_map& values, const std::string& name);

/// The value of an option that has to be given. Throws UsageError.
std::string required_from(const Verb& verb, const po::variables_map& values,
                          const std::string& option);

/// "0-3,7" as 0, 1, 2, 3, 7. Throws UsageError, starting with `option`.
std::vector<int> parse_indices(const std::string& text, const std::string& option);

/// The parts of a list separated by commas. Throws UsageError, starting with `option`, if one is
/// empty.
std::vector<std::string> parse_list(const std::string& text, const std::string& option);

}  // namespace kvsim::cli
