#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>

namespace kvsim {

/// What a child process may take to read the structure of a file.
struct GuardLimits {
  std::chrono::seconds cpu_time;   ///< whole seconds, at least 1
  std::uintmax_t memory;           ///< bytes beyond those that the process has when it begins
  std::chrono::milliseconds time;  ///< by the clock; for what blocks and takes no CPU time

  /// In proportion to the size of the file, 0 if there is none; traces/guard/README.md says why
  /// these.
  static GuardLimits of(const std::filesystem::path& file);
};

/// Puts this process under the limits, and lets it end with the one that started it. For a child
/// after fork(): takes no lock and no memory.
void limit_this_process(const GuardLimits& limits);

}  // namespace kvsim
