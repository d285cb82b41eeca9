#pragma once

#include <string>
#include <vector>

#include "sim/cli/options.h"

namespace kvsim::cli {

/// Replaces the program by `python -m MODULE ARGUMENTS`, which so has its terminal, its signals and
/// its exit status. Python is what KVSIM_PYTHON names; else the one next to the program, where pip
/// puts both; else python3 on the PATH. `purpose` completes a message: "draws the report". Throws
/// std::runtime_error if there is no Python or no such module.
[[noreturn]] void run_in_python(const std::string& module, const std::string& purpose,
                                const std::vector<std::string>& arguments);

/// What Python writes to its standard output when it runs `code` with these arguments. Empty if
/// there is no Python or it fails: what it says of an error is not shown.
std::string output_of_python(const std::string& code, const std::vector<std::string>& arguments);

/// The arguments for run_in_python(), `positional` first, with those of the file of --config, which
/// Python does not read. All options take texts.
std::vector<std::string> words_of(const std::vector<std::string>& arguments,
                                  const po::variables_map& values, const std::string& positional);

}  // namespace kvsim::cli
