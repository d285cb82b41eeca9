#pragma once

#include <H5Cpp.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "traces/hdf5/failed_calls.h"
#include "traces/hdf5/group_reader.h"
#include "traces/hdf5/hdf5_lock.h"
#include "traces/output/partial_file.h"

namespace kvsim {

/// Writes an HDF5 file as a PartialFile, which commit() renames. Without commit() the destructor
/// removes it; a killed program leaves it behind. Throws std::runtime_error, naming the file, if it
/// cannot be written.
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

  /// Calls `action` with the open file under the HDF5 lock. First reserves room for `bytes` more on
  /// the disk, because HDF5 cannot recover from a disk that fills up during a write. A call that
  /// fails where nobody sees it, as in the destructor of a dataset, counts as well.
  template <class Action>
  void write(std::uintmax_t bytes, const Action& action) {
    const Hdf5Lock lock;
    require_room(bytes);
    const FailedCalls failed;
    try {
      action(*open_);
    } catch (const H5::Exception& error) {
      abandon();
      fail(error.getDetailMsg());
    }
    if (!failed.any()) return;
    abandon();
    fail("a part of the file did not reach the disk");
  }

  void commit();

  /// The root group of a file in memory, which keeps the file. The caller holds the Hdf5Lock.
  GroupReader root(const std::string& fix) const;

 private:
  void require_room(std::uintmax_t bytes) const;
  /// Never closes the file: after a failure the library would write again, or crash.
  void abandon();
  [[noreturn]] void fail(const std::string& reason) const;

  std::filesystem::path file_;
  std::optional<PartialFile> partial_;  // empty: in memory
  std::unique_ptr<H5::H5File> open_;    // empty once committed or abandoned
};

}  // namespace kvsim
