#pragma once

#include <boost/program_options.hpp>
#include <string>
#include <vector>

#include "sim/cli/verb.h"

namespace kvsim::cli {

/// The command as a shell takes it, words quoted where they need it: the column `command` of the
/// table `run`. Where `values` name a --config, whose file may change, it is a command without one
/// that does the same: every option of `values` that is not at its default.
std::string command_line(const Verb& verb, const std::vector<std::string>& arguments,
                         const boost::program_options::variables_map& values);

}  // namespace kvsim::cli
