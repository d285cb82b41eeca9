#pragma once

#include <string>

#include "traces/hdf5/group_reader.h"

namespace kvsim {

// The manifest of version 2 lists all that was recorded: traces/README.md has its form. The caller
// holds the Hdf5Lock. All throw DataError.

/// The manifest of what the file holds now: its attributes, its datasets with their shapes, types
/// and `digests` attributes, and which heads were written. Reads no recorded numbers.
std::string make_manifest(const GroupReader& root);

/// Compares the dataset /manifest with what the file holds now. Returns its text.
std::string check_manifest(const GroupReader& root);

/// Compares the attribute `trace_id` with the SHA-256 of /manifest. Returns it.
std::string check_trace_id(const GroupReader& root, const std::string& manifest);

/// Writes /manifest and `trace_id`, in place of older ones, into a file that is open to be written
/// and whose datasets have their digests. Throws DataError for what the format does not know, which
/// the manifest would leave out.
void write_manifest(const GroupReader& root);

}  // namespace kvsim
