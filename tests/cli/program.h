#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kvsim::cli_test {

/// The result of a run of the program.
struct Ended {
  int status = 0;  ///< exit status; -N if signal N ended it
  std::string out;
  std::string err;
  double peak_mib = 0;  ///< peak resident memory
};

/// Starts `kvsim ARGUMENTS` in `folder` and returns its process id. Its output goes to the files
/// "out" and "err" there.
int start(const std::filesystem::path& folder, const std::vector<std::string>& arguments);

/// Waits for a process that start() began in `folder`.
Ended wait(const std::filesystem::path& folder, int process);

/// start(), then wait().
Ended run(const std::filesystem::path& folder, const std::vector<std::string>& arguments);

/// The bundled trace.
/// The path of the program.
std::string program();

std::string sample_trace();

}  // namespace kvsim::cli_test
