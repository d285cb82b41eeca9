#include "sim/results/database_error.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <stdexcept>

#include "sim/results/file_system.h"
#include "traces/hdf5/errors.h"

namespace kvsim {

bool locking_failed(const SQLite::Exception& error) {
  switch (error.getExtendedErrorCode()) {
    case SQLITE_IOERR_LOCK:
    case SQLITE_IOERR_RDLOCK:
    case SQLITE_IOERR_UNLOCK:
    case SQLITE_IOERR_CHECKRESERVEDLOCK:
      return true;
    default:
      return error.getErrorCode() == SQLITE_PROTOCOL;
  }
}

void throw_database_error(const std::filesystem::path& file, const SQLite::Exception& error,
                          const std::filesystem::path& copy_of) {
  const std::string name = copy_of.empty()
                               ? file.string()
                               : fmt::format("{}: its copy {}", copy_of.string(), file.string());
  const int code = error.getErrorCode();
  const std::string fix =
      "write with --scratch DIR (Python: scratch), a folder on a local disk, or to a local file";
  // All statements are valid for a result file, so SQLITE_ERROR means other tables or columns.
  if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT || code == SQLITE_ERROR) {
    throw DataError(
        fmt::format("{}: expected a result file (SQLite), found {}", name, error.what()));
  }
  if (locking_failed(error)) {
    const std::string kind = network_file_system(file);
    throw std::runtime_error(fmt::format("{}: {} does not lock files here ({}); {}", name,
                                         kind.empty() ? "its file system" : kind, error.what(),
                                         fix));
  }
  if (code == SQLITE_BUSY) {
    throw std::runtime_error(
        fmt::format("{}: locked for a minute: another program writes to it, or its file system "
                    "does not unlock files; wait for that program, or {}",
                    name, fix));
  }
  throw std::runtime_error(fmt::format("{}: {}", name, error.what()));
}

}  // namespace kvsim
