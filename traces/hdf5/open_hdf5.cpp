#include "traces/hdf5/open_hdf5.h"

#include <cerrno>
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

}  // namespace kvsim
