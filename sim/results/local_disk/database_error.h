#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <filesystem>

namespace kvsim {

/// Whether SQLite failed as it could not lock the file, other than as someone else holds a lock.
bool locking_failed(const std::filesystem::path& file, const SQLite::Exception& error);

/// Throws what SQLite found as a clear line: DataError if the file is not a result file,
/// std::runtime_error if it cannot be locked, read or written. `copy_of` is the result file of
/// which `file` is a local copy, if it is one.
[[noreturn]] void throw_database_error(const std::filesystem::path& file,
                                       const SQLite::Exception& error,
                                       const std::filesystem::path& copy_of = {});

}  // namespace kvsim
