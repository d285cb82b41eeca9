#include "traces/hdf5/failed_calls.h"

namespace kvsim {
namespace {

herr_t note(hid_t, void* any) {
  *static_cast<bool*>(any) = true;
  return 0;
}

}  // namespace

FailedCalls::FailedCalls() {
  H5Eget_auto2(H5E_DEFAULT, &before_, &data_before_);
  H5Eset_auto2(H5E_DEFAULT, note, &any_);
}

FailedCalls::~FailedCalls() { H5Eset_auto2(H5E_DEFAULT, before_, data_before_); }

}  // namespace kvsim
