#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace kvsim {

/// "FILE: cannot be written: REASON".
class UnwritableFile : public std::runtime_error {
 public:
  UnwritableFile(const std::filesystem::path& file, const std::string& reason);
  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

/// A file that is written whole: under a name of its own next to the target, which commit() gives
/// the target's name. Two writers of one target have two such files, and the last to commit wins.
///
/// The name is TARGET.partial-MACHINE-PID-RANDOM. What a killed process of this machine left of the
/// same target is removed by the next writer, and nothing else is.
class PartialFile {
 public:
  /// Makes an empty file with the permissions of the target, if there is one. Throws
  /// UnwritableFile if it cannot be made or the target is no regular file.
  explicit PartialFile(std::filesystem::path target);
  /// Removes the file, unless it was committed.
  ~PartialFile();
  PartialFile(PartialFile&& other) noexcept;
  PartialFile& operator=(PartialFile&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }

  /// Sees to it that the file can grow by so many bytes: for writers that cannot recover from a
  /// disk that fills up. Throws UnwritableFile if the disk has no room, or if the file would pass
  /// the limit on the size of files (ulimit -f).
  void reserve(std::uintmax_t bytes) const;

  /// Brings the closed file down to the disk, renames it, and brings the folder down as well.
  /// Throws UnwritableFile.
  void commit();

  /// The first two steps alone. The caller gives the file a name and calls keep().
  void bring_to_disk() const;
  /// The destructor removes nothing, as the file has its place.
  void keep() { path_.clear(); }

 private:
  [[noreturn]] void fail(const std::string& reason) const;

  std::filesystem::path target_;
  std::filesystem::path path_;  // empty: committed, or moved from
};

/// "files may have 60 KiB (ulimit -f)"; empty where they have no limit.
std::string file_size_limit();

/// Brings the names in the folder of `file` down to the disk, where the file system can. Throws
/// std::runtime_error with the reason.
void bring_folder_to_disk(const std::filesystem::path& file);

}  // namespace kvsim
