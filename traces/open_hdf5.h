#pragma once

#include <filesystem>
#include <string>

#include "traces/group_reader.h"

namespace kvsim {

/// What a file is expected to be, for messages.
struct FileKind {
  std::string kind;    ///< "a trace file"
  std::string make;    ///< how to come by one
  std::string repair;  ///< what to do about a damaged one
};

/// The root group of an HDF5 file. Throws DataError if there is no such file, or it is another one
/// or cannot be read. The caller holds the Hdf5Lock.
GroupReader open_hdf5(const std::filesystem::path& file, const FileKind& kind);

}  // namespace kvsim
