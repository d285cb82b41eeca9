#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <string>

namespace kvsim {

/// PRAGMA application_id of a result file: "kvsm" in ASCII. Programs such as file(1) show it.
inline constexpr std::int32_t kApplicationId = 0x6B76736D;

/// PRAGMA user_version: the version of the format. It grows when an earlier kvsim would misread the
/// file. 1: the table `digest`. Files from before have 0 in both.
inline constexpr int kFormatVersion = 1;

/// The format version of the file: 0 for one from before versions, and for an empty one. Throws
/// DataError for the file of another application, and for one of a newer kvsim; `file` is for
/// messages.
int format_version(SQLite::Database& connection, const std::string& file);

/// Makes the file one of this version, in the transaction that is open. Throws DataError if it has
/// tables, and none of them is `replay`: it is not ours.
void set_format_version(SQLite::Database& connection, const std::string& file);

}  // namespace kvsim
