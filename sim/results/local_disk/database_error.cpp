#include "sim/results/local_disk/database_error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <stdexcept>
#include <string>
#include <system_error>

#include "sim/base/errors.h"
#include "sim/results/local_disk/file_system.h"
#include "traces/output/descriptor.h"
#include "traces/output/partial_file.h"

namespace kvsim {
namespace {

/// Whether a server has no service for locks. SQLite takes that for a lock of someone else.
bool locks_are_refused(const std::filesystem::path& file) {
  if (network_file_system(file).empty()) return false;
  const Descriptor opened(file, O_RDONLY);
  if (!opened.is_open()) return false;
  struct flock lock {};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = std::numeric_limits<off_t>::max() - 1;  // where SQLite has no locks
  lock.l_len = 1;
  return fcntl(opened.number(), F_SETLK, &lock) != 0 &&
         (errno == ENOLCK || errno == ENOSYS || errno == EOPNOTSUPP);
}

/// Why SQLite cannot open or change the file, where it says no more than that it cannot.
std::string refusal(const std::filesystem::path& file, int code) {
  if (code != SQLITE_CANTOPEN && code != SQLITE_READONLY) return "";
  std::error_code unknown;
  const std::filesystem::path folder = std::filesystem::absolute(file, unknown).parent_path();
  if (std::filesystem::is_directory(file, unknown)) return "; it is a folder: name a file in it";
  if (std::filesystem::is_symlink(file, unknown) && !std::filesystem::exists(file, unknown)) {
    return "; it is a link to where nothing is: name another file";
  }
  if (!std::filesystem::exists(folder, unknown)) {
    return "; its folder does not exist: make it first";
  }
  if (!std::filesystem::is_directory(folder, unknown)) {
    return fmt::format("; {} is no folder: name another file", folder.string());
  }
  const bool is_there = std::filesystem::exists(file, unknown);
  if ((is_there && access(file.c_str(), W_OK) != 0) || access(folder.c_str(), W_OK) != 0) {
    return "; you may not write there: name another file";
  }
  return "";
}

}  // namespace

bool locking_failed(const std::filesystem::path& file, const SQLite::Exception& error) {
  switch (error.getExtendedErrorCode()) {
    case SQLITE_IOERR_LOCK:
    case SQLITE_IOERR_RDLOCK:
    case SQLITE_IOERR_UNLOCK:
    case SQLITE_IOERR_CHECKRESERVEDLOCK:
      return true;
    default:
      return error.getErrorCode() == SQLITE_PROTOCOL ||
             (error.getErrorCode() == SQLITE_BUSY && locks_are_refused(file));
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
  if (locking_failed(file, error)) {
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
  if (error.getExtendedErrorCode() == SQLITE_IOERR_WRITE && !file_size_limit().empty()) {
    throw std::runtime_error(fmt::format("{}: cannot be written: {}", name, file_size_limit()));
  }
  throw std::runtime_error(fmt::format("{}: {}{}", name, error.what(), refusal(file, code)));
}

}  // namespace kvsim
