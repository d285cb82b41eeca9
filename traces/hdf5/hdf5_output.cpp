#include "traces/hdf5/hdf5_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "traces/hdf5/group_writer.h"
#include "traces/hdf5/open_hdf5.h"

namespace kvsim {
namespace {

constexpr std::uintmax_t kRoomForStructure = 1 << 20;  // bytes that HDF5 adds to the data

}  // namespace

Hdf5Output::Hdf5Output(const std::filesystem::path& file) : file_(file), partial_(file) {
  require_room(0);
  const Hdf5Lock lock;
  try {
    // Nobody else knows the name, so there is nothing to lock.
    open_ =
        std::make_unique<H5::H5File>(partial_->path().string(), H5F_ACC_TRUNC,
                                     without_times_of_root(), with_checksums(FileLocking::none));
  } catch (const H5::Exception& error) {
    fail(error.getDetailMsg());
  }
}

Hdf5Output::Hdf5Output(const InMemory& memory) : file_(memory.name) {
  const Hdf5Lock lock;
  try {
    // Not with_checksums(): HDF5 1.10 makes images of such files with a wrong one.
    open_ = std::make_unique<H5::H5File>(name_in_memory(), H5F_ACC_TRUNC, without_times_of_root(),
                                         in_memory());
  } catch (const H5::Exception& error) {
    fail(error.getDetailMsg());
  }
}

Hdf5Output::~Hdf5Output() {
  if (!open_) return;
  const Hdf5Lock lock;
  open_.reset();
}

void Hdf5Output::commit() {
  if (!partial_) return;
  write(0, [](H5::H5File& open) {
    open.flush(H5F_SCOPE_GLOBAL);
    open.close();
  });
  {
    const Hdf5Lock lock;
    open_.reset();
  }
  partial_->commit();
}

void Hdf5Output::abandon() {
  static_cast<void>(open_.release());
  // At exit the library would write again what it could not write, and crash.
  on_exit(
      [](int status, void*) {
        std::fflush(nullptr);
        _exit(status);
      },
      nullptr);
}

GroupReader Hdf5Output::root(const std::string& fix) const {
  return GroupReader({file_.string(), "/"}, open_->openGroup("/"), fix);
}

void Hdf5Output::require_room(std::uintmax_t bytes) const {
  if (partial_) partial_->reserve(bytes + kRoomForStructure);
}

void Hdf5Output::fail(const std::string& reason) const {
  throw std::runtime_error(fmt::format("{}: cannot be written: {}", file_.string(), reason));
}

}  // namespace kvsim
