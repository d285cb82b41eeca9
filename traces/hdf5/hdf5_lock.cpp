#include "traces/hdf5/hdf5_lock.h"

#include <H5Cpp.h>

namespace kvsim {
namespace {

std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

// Filters that are no part of the library are code of others, which a file must not choose.
void forbid_plugins() {
  static const bool forbidden = H5PLset_loading_state(0) >= 0;
  static_cast<void>(forbidden);
}

}  // namespace

// A thread-safe HDF5 keeps one error stack per thread, so every holder has to silence its own.
Hdf5Lock::Hdf5Lock() : guard_(library_mutex()) {
  H5::Exception::dontPrint();
  forbid_plugins();
}

}  // namespace kvsim
