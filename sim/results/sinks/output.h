#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "sim/results/local_disk/scratch.h"

namespace kvsim {

/// Where the rows of a command go.
struct Output {
  std::optional<std::filesystem::path> file;  ///< the result file; none: rows stay in memory
  Scratch scratch = {};
  std::string command;  ///< as the table `run` names it
};

}  // namespace kvsim
