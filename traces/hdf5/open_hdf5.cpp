#include "traces/hdf5/open_hdf5.h"

#include <atomic>
#include <cstdint>

#include "traces/hdf5/input_file.h"

namespace kvsim {
namespace {

/// Writers make a file next to the one of the name and rename it when it is complete, so there is
/// nothing to wait for, and parallel file systems may refuse locks.
H5::H5File open_unlocked(const std::filesystem::path& file) {
  try {
    return H5::H5File(file.string(), H5F_ACC_RDONLY, H5::FileCreatPropList::DEFAULT,
                      file_locking(FileLocking::none));
  } catch (const H5::Exception&) {  // another part of this process may have it open, locked
    return H5::H5File(file.string(), H5F_ACC_RDONLY);
  }
}

}  // namespace

GroupReader open_hdf5(const std::filesystem::path& file, const FileKind& kind) {
  const Place place{file.string(), ""};
  if (const std::string found = found_instead_of_file(file); !found.empty()) {
    place.fail(kind.kind, found);
  }
  if (H5Fis_hdf5(file.c_str()) <= 0) place.fail(kind.kind, "one that is not HDF5", kind.make);
  try {
    const H5::H5File opened = open_unlocked(file);
    return GroupReader({file.string(), "/"}, opened.openGroup("/"), kind.repair);
  } catch (const H5::Exception&) {
    place.fail("a complete HDF5 file", "one that is truncated or damaged",
               "copy it again or " + kind.repair);
  }
}

GroupReader open_hdf5_image(const std::string& image, const std::string& name) {
  const Place place{name, "/"};
  const std::string fix = "make it again";
  try {
    const H5::FileAccPropList properties = in_memory();
    std::string copy = image;  // HDF5 takes a pointer to mutable bytes
    H5Pset_file_image(properties.getId(), copy.data(), copy.size());
    const H5::H5File opened(name_in_memory(), H5F_ACC_RDONLY, H5::FileCreatPropList::DEFAULT,
                            properties);
    return GroupReader(place, opened.openGroup("/"), fix);
  } catch (const H5::Exception&) {
    place.fail("the bytes of an HDF5 file", "others", fix);
  }
}

H5::FileAccPropList file_locking(FileLocking locking) {
  H5::FileAccPropList properties;
#if H5_VERSION_GE(1, 12, 1) || (H5_VERSION_GE(1, 10, 7) && !H5_VERSION_GE(1, 12, 0))
  H5Pset_file_locking(properties.getId(), locking == FileLocking::where_supported, true);
#else
  static_cast<void>(locking);
#endif
  return properties;
}

H5::FileAccPropList with_checksums(FileLocking locking) {
  H5::FileAccPropList properties = file_locking(locking);
  H5Pset_libver_bounds(properties.getId(), H5F_LIBVER_V110, H5F_LIBVER_V110);
  return properties;
}

std::string name_in_memory() {
  static std::atomic<std::uint64_t> count = 0;
  return "in memory " + std::to_string(count++);
}

H5::FileAccPropList in_memory() {
  constexpr std::size_t kGrowth = 1 << 20;  // bytes
  H5::FileAccPropList properties;
  properties.setCore(kGrowth, false);
  return properties;
}

}  // namespace kvsim
