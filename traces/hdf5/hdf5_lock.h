#pragma once

#include <memory>
#include <mutex>

namespace kvsim {

/// Holds the process-wide lock on the HDF5 library, which must not be used by two threads at once,
/// and keeps the library from printing its error stack and from loading plug-ins. All code that
/// calls HDF5 must hold one.
class Hdf5Lock {
 public:
  Hdf5Lock();

 private:
  std::lock_guard<std::mutex> guard_;
};

/// Deletes under the lock.
struct DeleteUnderLock {
  template <class Holder>
  void operator()(const Holder* holder) const {
    const Hdf5Lock lock;
    delete holder;
  }
};

/// Owns what keeps objects of the library open. It closes them under the lock, which the caller
/// does not hold then.
template <class Holder>
using ClosedUnderLock = std::unique_ptr<const Holder, DeleteUnderLock>;

}  // namespace kvsim
