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

/// Opens the root group of an HDF5 file. Throws DataError if the file is missing, no regular file,
/// not HDF5, damaged or unreadable. Does not lock the file. The caller holds the Hdf5Lock.
GroupReader open_hdf5(const std::filesystem::path& file, const FileKind& kind);

/// The same for the bytes of a file (GroupReader::file_image()), which are copied; `name` is for
/// messages.
GroupReader open_hdf5_image(const std::string& image, const std::string& name);

/// Whether to lock a file while it is open, where its file system can; HDF5_USE_FILE_LOCKING in the
/// environment takes precedence. Libraries before HDF5 1.10.7 always lock.
enum class FileLocking { none, where_supported };
H5::FileAccPropList file_locking(FileLocking locking);

/// The same for files that are written: the file format of HDF5 1.10, which has a checksum in every
/// object header and every index of chunks.
H5::FileAccPropList with_checksums(FileLocking locking);

/// Properties of a file that lives in memory alone, and a name for it that no other one has, by
/// which HDF5 tells them apart.
H5::FileAccPropList in_memory();
std::string name_in_memory();

}  // namespace kvsim
