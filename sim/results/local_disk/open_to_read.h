#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <filesystem>
#include <memory>

namespace kvsim {

constexpr int kBusyMilliseconds = 60'000;  // another sweep may be committing to the same file

/// Opens a result file to read it, and rolls back the transaction of a killed writer. Where the
/// file system is read-only or does not lock files, the file is read as it stands, if no writer
/// left a transaction. Throws SQLite::Exception, std::runtime_error if one did.
std::unique_ptr<SQLite::Database> open_to_read(const std::filesystem::path& file);

}  // namespace kvsim
