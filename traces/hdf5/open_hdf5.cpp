#include "traces/hdf5/open_hdf5.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>

namespace kvsim {

GroupReader open_hdf5(const std::filesystem::path& file, const FileKind& kind) {
  const Place place{file.string(), ""};
  if (!std::filesystem::exists(file)) place.fail(kind.kind, "no such file");
  if (std::filesystem::is_directory(file)) place.fail(kind.kind, "a directory");
  if (!std::ifstream(file)) place.fail("a file that can be read", std::strerror(errno));
  if (H5Fis_hdf5(file.c_str()) <= 0) place.fail(kind.kind, "one that is not HDF5", kind.make);
  try {
    const H5::H5File opened(file.string(), H5F_ACC_RDONLY);
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
