#include "traces/hdf5/hdf5_output.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "traces/hdf5/open_hdf5.h"

namespace kvsim {
namespace {

constexpr std::uintmax_t kRoomForStructure = 1 << 20;  // bytes that HDF5 adds to the data

}  // namespace

Hdf5Output::Hdf5Output(const std::filesystem::path& file)
    : file_(file), partial_(file.string() + ".partial") {
  if (std::filesystem::exists(file) && !std::filesystem::is_regular_file(file)) {
    fail("there is something else of that name");
  }
  require_room(0);
  if (!std::ofstream(partial_, std::ios::app)) fail(std::strerror(errno));
  const Hdf5Lock lock;
  try {
    open_.emplace(partial_.string(), H5F_ACC_TRUNC, H5::FileCreatPropList::DEFAULT,
                  file_locking(FileLocking::where_supported));
  } catch (const H5::Exception& error) {
    std::error_code ignored;
    std::filesystem::remove(partial_, ignored);
    fail(error.getDetailMsg());
  }
}

Hdf5Output::Hdf5Output(const InMemory& memory) : file_(memory.name) {
  const Hdf5Lock lock;
  try {
    open_.emplace(name_in_memory(), H5F_ACC_TRUNC, H5::FileCreatPropList::DEFAULT, in_memory());
  } catch (const H5::Exception& error) {
    fail(error.getDetailMsg());
  }
}

Hdf5Output::~Hdf5Output() {
  if (!open_) return;
  const Hdf5Lock lock;
  open_.reset();
  if (partial_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove(partial_, ignored);
}

void Hdf5Output::commit() {
  if (partial_.empty()) return;
  write(0, [](H5::H5File& open) {
    open.flush(H5F_SCOPE_GLOBAL);
    open.close();
  });
  const Hdf5Lock lock;
  std::filesystem::rename(partial_, file_);
  open_.reset();
}

GroupReader Hdf5Output::root(const std::string& fix) const {
  return GroupReader({file_.string(), "/"}, open_->openGroup("/"), fix);
}

void Hdf5Output::require_room(std::uintmax_t bytes) const {
  if (partial_.empty()) return;
  std::error_code unknown;
  const auto space =
      std::filesystem::space(std::filesystem::absolute(partial_).parent_path(), unknown);
  const std::uintmax_t wanted = bytes + kRoomForStructure;
  if (!unknown && space.available < wanted) {
    fail(fmt::format("{} KiB are free where up to {} KiB are needed", space.available >> 10,
                     wanted >> 10));
  }
}

void Hdf5Output::fail(const std::string& reason) const {
  throw std::runtime_error(fmt::format("{}: cannot be written: {}", file_.string(), reason));
}

}  // namespace kvsim
