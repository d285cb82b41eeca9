#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "traces/output/descriptor.h"

namespace kvsim {

/// A folder below a scratch folder for the local copy of one result file. It holds the copy, a lock
/// that its process holds while it lives, and what the copy is based on: the fingerprints
/// (publication.h) that its result file had or may have had when it was last equal to it.
class CopyFolder {
 public:
  /// Makes one for the result file `target`. Throws std::runtime_error.
  CopyFolder(const std::filesystem::path& scratch, const std::filesystem::path& target);

  /// Those that killed processes left for `target`.
  static std::vector<std::unique_ptr<CopyFolder>> left_behind(const std::filesystem::path& scratch,
                                                              const std::filesystem::path& target);

  /// The local copy of the result file.
  const std::filesystem::path& file() const { return file_; }

  bool is_based_on(const std::string& fingerprint) const;
  void set_based_on(const std::vector<std::string>& fingerprints) const;

  /// Removes the folder with all that is in it.
  void remove();

 private:
  CopyFolder(std::filesystem::path folder, Descriptor lock, const std::filesystem::path& target);

  std::filesystem::path folder_;
  std::filesystem::path file_;
  Descriptor lock_;
};

}  // namespace kvsim
