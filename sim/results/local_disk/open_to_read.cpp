#include "sim/results/local_disk/open_to_read.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <stdexcept>
#include <string>

#include "sim/results/local_disk/database_error.h"

namespace kvsim {
namespace {

namespace fs = std::filesystem;

/// A name for SQLite that says that nobody writes to the file, so that no lock is needed.
std::string immutable(const fs::path& file) {
  std::string name = "file:";
  for (const char c : file.string()) {
    const bool has_meaning = c == '%' || c == '?' || c == '#';
    name += has_meaning ? fmt::format("%{:02X}", c) : std::string(1, c);
  }
  return name + "?immutable=1";
}

bool left_a_transaction(const fs::path& file) {
  for (const char* end : {"-journal", "-wal"}) {
    std::error_code missing;
    const std::uintmax_t size = fs::file_size(file.string() + end, missing);
    if (!missing && size > 0) return true;
  }
  return false;
}

bool may_be_read_as_it_stands(const fs::path& file, const SQLite::Exception& error) {
  const int code = error.getErrorCode();
  return code == SQLITE_READONLY || code == SQLITE_CANTOPEN || code == SQLITE_PERM ||
         locking_failed(file, error);
}

}  // namespace

std::unique_ptr<SQLite::Database> open_to_read(const fs::path& file) {
  const fs::path absolute = fs::absolute(file);
  try {
    auto connection =
        std::make_unique<SQLite::Database>(absolute, SQLite::OPEN_READWRITE, kBusyMilliseconds);
    connection->tableExists("replay");  // the first use of the file, which locks it
    return connection;
  } catch (const SQLite::Exception& error) {
    if (!may_be_read_as_it_stands(absolute, error)) throw;
    if (left_a_transaction(absolute)) {
      throw std::runtime_error(fmt::format(
          "{}: a killed program left a transaction in the file of that name with -journal, which "
          "cannot be rolled back here ({}); copy both files to a local disk",
          file.string(), error.what()));
    }
  }
  return std::make_unique<SQLite::Database>(immutable(absolute),
                                            SQLite::OPEN_READONLY | SQLite::OPEN_URI);
}

}  // namespace kvsim
