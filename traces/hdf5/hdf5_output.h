#pragma once

#include <H5Cpp.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>

#include "traces/hdf5/group_reader.h"
#include "traces/hdf5/hdf5_lock.h"

namespace kvsim {

/// Writes an HDF5 file as FILE.partial, which commit() renames to FILE. Without commit() the
/// destructor removes the partial file; a killed program leaves it behind. Throws
/// std::runtime_error, naming the file, if it cannot be written.
class Hdf5Output {
 public:
  /// Throws if `file` exists and is not a regular file.
  explicit Hdf5Output(const std::filesystem::path& file);
  /// Writes in memory instead, where commit() does nothing and the file lives as long as something
  /// in it is open. `name` is for messages.
  struct InMemory {
    std::string name;
  };
  explicit Hdf5Output(const InMemory& memory);
  ~Hdf5Output();

  /// Calls `action` with the open file under the HDF5 lock. First checks that the disk has room for
  /// `bytes` more, because HDF5 cannot recover from a disk that fills up during a write.
  template <class Action>
  void write(std::uintmax_t bytes, const Action& action) {
    const Hdf5Lock lock;
    require_room(bytes);
    try {
      action(*open_);
    } catch (const H5::Exception& error) {
      fail(error.getDetailMsg());
    }
  }

  void commit();

  /// The root group of a file in memory, which keeps the file. The caller holds the Hdf5Lock.
  GroupReader root(const std::string& fix) const;

 private:
  void require_room(std::uintmax_t bytes) const;
  [[noreturn]] void fail(const std::string& reason) const;

  std::filesystem::path file_;
  std::filesystem::path partial_;   // empty: in memory
  std::optional<H5::H5File> open_;  // empty once committed
};

}  // namespace kvsim
