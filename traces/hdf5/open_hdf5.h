#pragma once

#include <filesystem>
#include <string>

#include "traces/hdf5/group_reader.h"

namespace kvsim {

/// The expected kind of file, for messages.
struct FileKind {
  std::string kind;    ///< "a trace file"
  std::string make;    ///< how to make one
  std::string repair;  ///< how to replace a damaged one
};

/// Opens the root group of an HDF5 file. Throws DataError if the file is missing, not HDF5, damaged
/// or unreadable. The caller holds the Hdf5Lock.
GroupReader open_hdf5(const std::filesystem::path& file, const FileKind& kind);

}  // namespace kvsim
