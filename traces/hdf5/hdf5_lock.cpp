#include "traces/hdf5/hdf5_lock.h"

#include <H5Cpp.h>

namespace kvsim {
namespace {

std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

// A thread-safe HDF5 keeps one error stack per thread, so every holder has to silence its own.
Hdf5Lock::Hdf5Lock() : guard_(library_mutex()) { H5::Exception::dontPrint(); }

}  // namespace kvsim
