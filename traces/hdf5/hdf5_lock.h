#pragma once

#include <mutex>

namespace kvsim {

/// Holds the process-wide lock on the HDF5 library, which must not be used by two threads at once,
/// and keeps the library from printing its error stack. All code that calls HDF5 must hold one.
class Hdf5Lock {
 public:
  Hdf5Lock();

 private:
  std::lock_guard<std::mutex> guard_;
};

}  // namespace kvsim
