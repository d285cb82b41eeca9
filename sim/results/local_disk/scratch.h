#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

namespace kvsim {

/// Where a result file is written while a command runs.
struct Scratch {
  /// A folder on a local disk. Empty: the file is written where it lies, but on a file system that
  /// machines share (file_system.h) in TMPDIR or another local folder for temporary files.
  std::filesystem::path folder;

  /// Takes one line for the user.
  std::function<void(const std::string&)> tell;

  /// New rows are brought to the file's place about so often. Time decides when, never what.
  std::chrono::milliseconds interval = std::chrono::minutes(1);
};

/// The folder in which `file` is to be written; empty: where it lies. Tells if there is no local
/// one. Throws UsageError if Scratch::folder cannot be made.
std::filesystem::path scratch_folder(const std::filesystem::path& file, const Scratch& scratch);

}  // namespace kvsim
