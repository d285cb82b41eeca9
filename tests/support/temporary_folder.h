#pragma once

#include <filesystem>
#include <string>

namespace kvsim::traces_test {

/// A folder for the files of one test, removed with them at its end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  /// How many unfinished files of this name there are (traces/output).
  int num_partial(const std::string& name) const;

 private:
  std::filesystem::path path_;
};

}  // namespace kvsim::traces_test
