#pragma once

#include <H5Epublic.h>

namespace kvsim {

/// Notes whether a call of the HDF5 library fails while the object lives. Destructors of its C++
/// objects print that a close failed, and with it a write, and go on. The caller holds the
/// Hdf5Lock.
class FailedCalls {
 public:
  FailedCalls();
  ~FailedCalls();
  FailedCalls(const FailedCalls&) = delete;
  FailedCalls& operator=(const FailedCalls&) = delete;

  bool any() const { return any_; }

 private:
  H5E_auto2_t before_ = nullptr;
  void* data_before_ = nullptr;
  bool any_ = false;
};

}  // namespace kvsim
