#pragma once

#include <H5Cpp.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>

#include "traces/hdf5_lock.h"

namespace kvsim {

/// An HDF5 file on its way to the disk. It is written as FILE.partial and appears under its name
/// when commit() returns; one that is given up before is removed. (A killed program leaves the
/// partial file behind.) Throws std::runtime_error, naming the file, if it cannot be written.
class Hdf5Output {
 public:
  /// Refuses a name that something other than a regular file has.
  explicit Hdf5Output(const std::filesystem::path& file);
  ~Hdf5Output();

  /// Calls `action` with the open file, alone in HDF5. First makes sure that the disk has room for
  /// `bytes` more: HDF5 does not survive a disk that fills up while it writes.
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

 private:
  void require_room(std::uintmax_t bytes) const;
  [[noreturn]] void fail(const std::string& reason) const;

  std::filesystem::path file_;
  std::filesystem::path partial_;
  std::optional<H5::H5File> open_;  // empty once committed
};

}  // namespace kvsim
